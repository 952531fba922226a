"""The desk pull: GET /api/v1/me, /api/v1/desks and /api/v1/desks/{userId}."""

from typing import Any

import pytest

from desks import actions
from events.actors import SYSTEM
from events.models import Event, Head
from tests.client import DESKS, EVENTS, code, deploy_path, get, post, push
from tests.factories import a_ready_desk
from tests.signals.bodies import deploy, fanout
from tokens import account_closing

pytestmark = pytest.mark.django_db


def ids(answer: Any) -> list[str]:
    return [desk["userId"] for desk in answer.json()["desks"]]


def every_page(engine: str, query: str, limit: int) -> list[str]:
    """The desks of all pages, in order."""
    found: list[str] = []
    after = ""
    while True:
        answer = get(f"{DESKS}?limit={limit}&{query}{after}", engine)
        found += ids(answer)
        if answer.json()["next"] is None:
            return found
        after = f"&after={answer.json()['next']}"


def errors(answer: Any) -> list[tuple[str, str]]:
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    return [(error["field"], error["code"]) for error in answer.json()["errors"]]


def test_a_deactivated_desk_is_listed_only_by_signals_that_filled_it(engine, desk, stranger, card):
    signal = push(fanout(), engine).json()["signal"]["id"]
    account_closing.deactivate(user=desk.user, actor=SYSTEM)
    for query in ("", "?ready=0", "?connected=0", "?ready=1", "?connected=1"):
        assert desk.public_id not in ids(get(DESKS + query, engine))
    assert get(f"{DESKS}/{desk.public_id}", engine).json()["code"] == "not_found"
    assert desk.public_id in ids(get(f"{DESKS}?signal={signal}", engine))
    refused = post(deploy_path(desk.public_id), deploy(), engine)
    assert code(refused) == "desk_not_ready"


def test_a_cursor_is_valid_only_for_its_list(engine, card):
    for _ in range(2):
        a_ready_desk(card)
    lists = [f"{DESKS}?", f"{DESKS}?ready=1", f"{DESKS}?connected=1", f"{EVENTS}?"]
    cursors = {path: get(f"{path}&limit=1", engine).json()["next"] for path in lists}
    for given_by, cursor in cursors.items():
        for path in cursors:
            answer = get(f"{path}&limit=1&after={cursor}", engine)
            if path == given_by:
                assert answer.status_code == 200
            else:
                assert errors(answer) == [("after", "cursor")], (given_by, path)


def test_a_desk_created_while_paging_does_not_shift_the_pages(engine, card):
    first, second = a_ready_desk(card), a_ready_desk(card)
    page = get(f"{DESKS}?limit=1", engine).json()
    third = a_ready_desk(card)
    rest = get(f"{DESKS}?after={page['next']}", engine)
    assert [page["desks"][0]["userId"], *ids(rest)] == [d.public_id for d in (first, second, third)]


def test_a_page_costs_four_statements_whatever_its_size(engine, card, django_assert_num_queries):
    for _ in range(5):
        a_ready_desk(card)
    get(DESKS, engine)  # records the token's use
    with django_assert_num_queries(4):
        after = get(f"{DESKS}?limit=2", engine).json()["next"]
    a_ready_desk(card)
    with django_assert_num_queries(5):  # the event at which the list began, once
        get(f"{DESKS}?limit=2&after={after}", engine)


def test_unknown_parameters_and_values_are_refused_by_name(engine):
    for query, expected in {
        "foo=1": [("foo", "unknown")],
        "ready=yes": [("ready", "choice")],
        "ready=": [("ready", "choice")],
        "ready=2": [("ready", "choice")],
        "Ready=1": [("Ready", "unknown")],
        "connected=yes": [("connected", "choice")],
        "ready=1&ready=1": [("ready", "repeated")],
        "limit=0": [("limit", "range")],
        "limit=1001": [("limit", "range")],
        "limit=ten": [("limit", "type")],
        "limit=1.0": [("limit", "type")],
        "limit=-1": [("limit", "type")],
        "limit=": [("limit", "type")],
        "limit=" + "9" * 400: [("limit", "range")],
        "after=nonsense": [("after", "cursor")],
        "after=": [("after", "required")],
        "signal=%00": [("signal", "characters")],
        "signal=": [("signal", "required")],
        "userId=x": [("userId", "unknown")],
        "wait=1": [("wait", "unknown")],
        "foo=1&limit=0": [("foo", "unknown"), ("limit", "range")],
    }.items():
        assert errors(get(f"{DESKS}?{query}", engine)) == expected, query


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("foo=1", "Leave this field out: it is not known here."),
        ("ready=yes", "Send one of: 1, 0."),
        ("limit=0", "Send at least 1."),
        ("limit=1001", "Send at most 1000."),
    ],
)
def test_a_refused_parameter_says_what_to_send_instead(engine, query, detail):
    (error,) = get(f"{DESKS}?{query}", engine).json()["errors"]
    assert error["detail"] == detail


@pytest.fixture
def filled(engine, desk, stranger) -> str:
    """A signal that filled both desks."""
    signal: str = push(fanout(), engine).json()["signal"]["id"]
    return signal


def test_desks_that_a_signal_filled_are_listed_with_the_other_filters(
    engine, desk, stranger, filled
):
    actions.disconnect(desk=stranger, actor=SYSTEM)
    assert ids(get(f"{DESKS}?signal={filled}&connected=1", engine)) == [desk.public_id]
    assert ids(get(f"{DESKS}?signal={filled}&ready=0", engine)) == [stranger.public_id]


def test_every_page_of_a_list_with_all_filters_is_read_in_a_long_log(
    engine, desk, stranger, filled
):
    for position in (10**4, 10**10):
        Event.objects.filter(signal_id=filled).update(position=position)
        Head.objects.update(position=position)
        listed = every_page(engine, f"ready=1&connected=1&signal={filled}", 1)
        assert listed == [desk.public_id, stranger.public_id]

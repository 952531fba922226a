"""The desk pull: GET /api/v1/me, /api/v1/desks and /api/v1/desks/{userId}."""

from typing import Any

import pytest
from django.test import Client

from desks import actions
from desks.models import Card, Desk
from events.actors import SYSTEM
from events.models import Event, Head
from tests.client import EVENTS, code, deploy_path, post, push
from tests.factories import a_bot, a_card, a_connected_desk, a_platform_token, a_ready_desk
from tests.signals.bodies import deploy, fanout
from tokens import account_closing

pytestmark = pytest.mark.django_db

DESKS = "/api/v1/desks"
FIELDS = {
    "userId",
    "paper",
    "liveWrites",
    "connected",
    "ready",
    "connection",
    "election",
    "createdAt",
    "updatedAt",
}


@pytest.fixture
def engine() -> Client:
    """A client with a platform token that has the scope read."""
    return Client(headers={"Authorization": f"Bearer {a_platform_token('read')}"})


def ids(answer: Any) -> list[str]:
    return [desk["userId"] for desk in answer.json()["desks"]]


def every_page(engine: Client, query: str, limit: int) -> list[str]:
    """The desks of all pages, in order."""
    found: list[str] = []
    after = ""
    while True:
        answer = engine.get(f"{DESKS}?limit={limit}&{query}{after}")
        found += ids(answer)
        if answer.json()["next"] is None:
            return found
        after = f"&after={answer.json()['next']}"


def errors(answer: Any) -> list[tuple[str, str]]:
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    return [(error["field"], error["code"]) for error in answer.json()["errors"]]


def test_a_ready_desk_shows_its_connection_and_its_election(engine, desk, card):
    answer = engine.get(f"{DESKS}/{desk.public_id}").json()
    assert set(answer) == FIELDS
    assert (answer["connected"], answer["ready"]) == (True, True)
    assert (answer["paper"], answer["liveWrites"]) == (True, False)
    assert answer["connection"]["venue"] == "Kraken"
    assert answer["connection"]["access"] == "trade-only"
    election = answer["election"]
    assert election.pop("electedAt") == answer["updatedAt"]
    assert election == {"card": card.name, "pair": card.pair, "direction": card.direction}


def test_without_a_published_card_no_desk_is_ready(engine, desk):
    a_bot(desk)
    actions.retire_card(actor=SYSTEM)
    answer = engine.get(f"{DESKS}/{desk.public_id}").json()
    assert (answer["connected"], answer["ready"], answer["election"]) == (True, False, None)
    assert ids(engine.get(f"{DESKS}?ready=1")) == []
    assert ids(engine.get(f"{DESKS}?ready=0")) == [desk.public_id]


def test_an_election_on_a_retired_card_is_not_shown(engine, desk):
    a_card(name="Evening")
    assert engine.get(f"{DESKS}/{desk.public_id}").json()["election"] is None


def test_a_bots_election_does_not_make_a_desk_ready(engine, card):
    desk = a_connected_desk()
    a_bot(desk)
    assert engine.get(f"{DESKS}/{desk.public_id}").json()["ready"] is False


def test_a_deactivated_desk_is_listed_only_by_signals_that_filled_it(engine, desk, stranger, card):
    signal = push(fanout(), a_platform_token()).json()["signal"]["id"]
    account_closing.deactivate(user=desk.user, actor=SYSTEM)
    for query in ("", "?ready=0", "?connected=0", "?ready=1", "?connected=1"):
        assert desk.public_id not in ids(engine.get(DESKS + query))
    assert engine.get(f"{DESKS}/{desk.public_id}").json()["code"] == "not_found"
    assert desk.public_id in ids(engine.get(f"{DESKS}?signal={signal}"))
    refused = post(deploy_path(desk.public_id), deploy(), a_platform_token())
    assert code(refused) == "desk_not_ready"


def test_a_reactivated_desk_is_listed_as_not_connected(engine, desk):
    account_closing.deactivate(user=desk.user, actor=SYSTEM)
    account_closing.reactivate(user=desk.user, actor=SYSTEM)
    assert ids(engine.get(f"{DESKS}?connected=0")) == ids(engine.get(DESKS)) == [desk.public_id]
    answer = engine.get(f"{DESKS}/{desk.public_id}").json()
    assert (answer["connected"], answer["ready"], answer["election"]) == (False, False, None)


def test_a_cursor_is_valid_only_for_its_list(engine, card):
    for _ in range(2):
        a_ready_desk(card)
    lists = [f"{DESKS}?", f"{DESKS}?ready=1", f"{DESKS}?connected=1", f"{EVENTS}?"]
    cursors = {path: engine.get(f"{path}&limit=1").json()["next"] for path in lists}
    for given_by, cursor in cursors.items():
        for path in cursors:
            answer = engine.get(f"{path}&limit=1&after={cursor}")
            if path == given_by:
                assert answer.status_code == 200
            else:
                assert errors(answer) == [("after", "cursor")], (given_by, path)


def test_a_desk_created_while_paging_does_not_shift_the_pages(engine, card):
    first, second = a_ready_desk(card), a_ready_desk(card)
    page = engine.get(f"{DESKS}?limit=1").json()
    third = a_ready_desk(card)
    rest = engine.get(f"{DESKS}?after={page['next']}")
    assert [page["desks"][0]["userId"], *ids(rest)] == [d.public_id for d in (first, second, third)]


def test_a_page_costs_four_statements_whatever_its_size(engine, card, django_assert_num_queries):
    for _ in range(5):
        a_ready_desk(card)
    engine.get(DESKS)  # records the token's use
    with django_assert_num_queries(4):
        after = engine.get(f"{DESKS}?limit=2").json()["next"]
    a_ready_desk(card)
    with django_assert_num_queries(5):  # the event at which the list began, once
        engine.get(f"{DESKS}?limit=2&after={after}")


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
        assert errors(engine.get(f"{DESKS}?{query}")) == expected, query


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
    (error,) = engine.get(f"{DESKS}?{query}").json()["errors"]
    assert error["detail"] == detail


class TestDesksThatASignalFilled:
    @pytest.fixture
    def whole(self) -> Client:
        return Client(headers={"Authorization": f"Bearer {a_platform_token()}"})

    def push(self, client: Client, **fields: Any) -> str:
        body = {"pair": "BTC/USDT", "direction": "long", "elected": True, "source": "floor"}
        answer = client.post(
            "/api/hooks/signal", body | fields, content_type="application/json"
        ).json()
        return answer["signal"]["id"]

    def test_a_fan_out_filled_the_desks_enrolled_at_its_position(self, whole, card):
        early, leaving = a_ready_desk(card), a_ready_desk(card)
        left = a_ready_desk(card)
        actions.withdraw(desk=left, actor=SYSTEM)
        signal = self.push(whole, fanout=True, nonce="1")
        actions.withdraw(desk=leaving, actor=SYSTEM)
        a_ready_desk(card)
        for limit in (1, 2, 10):
            listed = every_page(whole, f"signal={signal}", limit)
            assert listed == [early.public_id, leaving.public_id]

    def test_it_still_lists_them_when_the_card_is_retired(self, whole, card, desk):
        signal = self.push(whole, fanout=True, nonce="1")
        a_card(name="Evening")
        assert ids(whole.get(f"{DESKS}?signal={signal}")) == [desk.public_id]

    def test_a_desk_that_withdrew_and_enrolled_again_is_listed_once(self, whole, card, desk):
        first = self.push(whole, fanout=True, nonce="1")
        actions.withdraw(desk=desk, actor=SYSTEM)
        nobody = self.push(whole, fanout=True, nonce="2")
        actions.enrol(desk=desk, card_id=card.pk, actor=SYSTEM)
        second = self.push(whole, fanout=True, nonce="3")
        for signal, expected in ((first, [desk]), (nobody, []), (second, [desk])):
            assert every_page(whole, f"signal={signal}", 1) == [d.public_id for d in expected]

    def test_it_combines_with_the_other_filters(self, whole, card, desk, stranger):
        signal = self.push(whole, fanout=True, nonce="1")
        actions.disconnect(desk=stranger, actor=SYSTEM)
        assert ids(whole.get(f"{DESKS}?signal={signal}&connected=1")) == [desk.public_id]
        assert ids(whole.get(f"{DESKS}?signal={signal}&ready=0")) == [stranger.public_id]

    def test_every_page_of_a_list_with_all_filters_is_read_in_a_long_log(
        self, whole, card, desk, stranger
    ):
        signal = self.push(whole, fanout=True, nonce="1")
        for position in (10**4, 10**10):
            Event.objects.filter(signal_id=signal).update(position=position)
            Head.objects.update(position=position)
            listed = every_page(whole, f"ready=1&connected=1&signal={signal}", 1)
            assert listed == [desk.public_id, stranger.public_id]


def test_no_model_has_a_field_for_a_venues_secret():
    names = {field.name for model in (Desk, Card) for field in model._meta.get_fields()}
    assert not names & {"key", "secret", "passphrase", "password"}

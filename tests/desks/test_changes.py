"""GET /api/v1/desks?changedSince=…: a reader that follows changes knows what a full pull shows."""

import contextlib
import random
from datetime import timedelta
from urllib.parse import urlencode

import pytest

from desks import actions, api
from desks.actions import open_desks
from desks.models import Automation, Card, Desk
from events.actors import SYSTEM
from events.feed import read_identity
from events.http.cursors import log_cursor, log_position, scan_cursor
from events.http.refusals import Refused
from events.models import Event, Head
from signals.client import DeskCopy, Engine, Refusal
from tests.client import DESKS, code, get
from tests.factories import (
    UserFactory,
    a_bot,
    a_card,
    a_connected_desk,
    a_desk,
    a_platform_token,
    a_ready_desk,
)
from tests.processes import started_together
from tokens import account_closing
from tokens import actions as tokens
from tokens.account_closing import close_account

pytestmark = pytest.mark.django_db


class Reader(Engine):
    """The shipped client inside this process. ``between`` is called after each page."""

    def __init__(self, token, between=lambda: None):
        self._connection = self  # type: ignore[assignment]
        self._token, self._between = token, between

    def get(self, path, query, *needed):
        given = {name: value for name, value in query.items() if value is not None}
        answer = get(f"{path}?{urlencode(given | {'limit': 2})}", self._token)
        self._between()
        if answer.status_code != 200:
            raise Refusal(answer.status_code, answer.json())
        return answer.json()


def listed(engine, **query):
    return get(f"{DESKS}?{urlencode(query)}", engine).json()


def changes(engine, as_of):
    """The desks that changed, and whether the card did."""
    page = listed(engine, changedSince=as_of)
    return [desk["userId"] for desk in page["desks"]], page["cardChanged"]


def test_every_list_has_one_as_of_on_all_its_pages(card, stranger, desk, engine):
    epoch, position = head()
    as_of = log_cursor(epoch, position, read_identity(position))
    for query in ({}, {"ready": 1}, {"connected": 1}, {"signal": "sig_none"}):
        assert listed(engine, **query)["asOf"] == as_of, query
    first = listed(engine, limit=1)
    a_ready_desk(card)
    rest = listed(engine, limit=5, after=first["next"])
    assert first["asOf"] == rest["asOf"]
    assert len(first["desks"] + rest["desks"]) == 3
    assert changes(engine, rest["asOf"]) == ([rest["desks"][-1]["userId"]], False)


def head():
    now = Head.objects.get()
    return now.epoch, now.position


def test_new_desks_are_listed_in_the_order_of_their_changes(card, desk, engine):
    as_of = listed(engine)["asOf"]
    opened, connected = a_desk(), a_connected_desk()
    many = open_desks(
        users=[UserFactory.create() for _ in range(3)], venue="Kraken", card=card, actor=SYSTEM
    )
    actions.connect(desk=opened, venue="Kraken", actor=SYSTEM)
    expected = [each.public_id for each in (connected, *many, opened)]
    assert changes(engine, as_of) == (expected, False)


def test_publishing_and_retiring_a_card_changes_no_desk_but_says_so(card, desk, engine):
    as_of = listed(engine)["asOf"]
    a_card("Evening")
    assert changes(engine, as_of) == ([], True)
    later = listed(engine)["asOf"]
    assert changes(engine, later) == ([], False)
    actions.retire_card(actor=SYSTEM)
    assert changes(engine, later) == ([], True)


def test_every_ready_desk_is_listed_from_a_page_whose_card_changed(desk, stranger, engine):
    """A later page begins behind the change, and so says nothing of it again."""
    as_of = listed(engine)["asOf"]
    actions.withdraw(desk=desk, actor=SYSTEM)
    evening = a_card("Evening")
    for each in (desk, stranger):
        actions.enrol(desk=each, card_id=evening.pk, actor=SYSTEM)
    first = listed(engine, changedSince=as_of, limit=1)
    second = listed(engine, changedSince=as_of, limit=1, after=first["next"])
    assert [page["cardChanged"] for page in (first, second)] == [True, False]
    assert [page["desks"][0]["ready"] for page in (first, second)] == [True, True]
    assert [page["desks"][0]["userId"] for page in (first, second)] == [
        desk.public_id,
        stranger.public_id,
    ]
    assert (first["asOf"], second["next"]) == (second["asOf"], None)


def errors(answer):
    assert code(answer) == "invalid"
    return {error["field"] for error in answer.json()["errors"]}


def test_what_is_not_a_change_list_is_refused(desk, stranger, engine):
    as_of = listed(engine)["asOf"]
    epoch, position = head()
    for name, value in (("ready", 1), ("connected", 0), ("signal", "sig_1")):
        answer = get(f"{DESKS}?changedSince={as_of}&{name}={value}", engine)
        assert errors(answer) == {name}
    of_list = listed(engine, limit=1)["next"]
    for wrong in ("x", "", of_list, as_of + "=", "%00"):
        assert errors(get(f"{DESKS}?changedSince={wrong}", engine)) == {"changedSince"}
    start = log_cursor(epoch, 0)
    of_changes = listed(engine, changedSince=start, limit=1)["next"]
    for query in (
        f"changedSince={as_of}&after={of_changes}",
        f"changedSince={start}&after={of_list}",
        f"changedSince={start}&after={as_of}",
        f"after={of_changes}",
    ):
        assert errors(get(f"{DESKS}?{query}", engine)) == {"after"}
    lost = (log_cursor("0" * 8, 0), log_cursor(epoch, position + 1))
    assert [code(get(f"{DESKS}?changedSince={c}", engine)) for c in lost] == ["cursor_lost"] * 2


def test_the_cursors_of_another_history_are_lost(desk, stranger, engine):
    page = listed(engine, limit=1)
    changed = listed(engine, changedSince=log_cursor(head()[0], 0), limit=1)
    Head.objects.update(epoch="0" * 8)
    for query in (
        {"after": page["next"]},
        {"changedSince": page["asOf"]},
        {"changedSince": log_cursor("0" * 8, 0), "after": changed["next"]},
    ):
        assert code(get(f"{DESKS}?{urlencode(query)}", engine)) == "cursor_lost"


@pytest.mark.parametrize("of_changes", [False, True])
def test_every_next_is_lost_with_the_event_at_which_the_list_began(
    card, desk, stranger, engine, of_changes
):
    a_ready_desk(card)
    epoch, position = head()
    query = {"limit": 1, **({"changedSince": log_cursor(epoch, 0)} if of_changes else {})}
    first = listed(engine, **query)
    a_desk()  # the log is longer than when the list began
    second = listed(engine, **query, after=first["next"])
    began = Event.objects.filter(position=position)
    began.update(at=began.get().at + timedelta(milliseconds=1))
    for page in (first, second):
        answer = get(f"{DESKS}?{urlencode({**query, 'after': page['next']})}", engine)
        assert code(answer) == "cursor_lost"


def test_a_copy_starts_again_after_a_restore(desk, stranger, engine):
    reader, copy = Reader(engine), DeskCopy()
    copy.refresh(reader)
    close_account(stranger)
    Head.objects.update(epoch="0" * 8)
    copy.refresh(reader)
    assert list(copy.desks) == [desk.public_id]
    epoch, position = head()
    assert log_position(copy.as_of, epoch, position, read_identity) == position


@pytest.fixture
def a_loss(card, desk, stranger, engine):
    """Three desks, and what puts another event in the place of the last one."""
    a_ready_desk(card)
    last = Event.objects.filter(position=head()[1])
    another = last.get().at + timedelta(milliseconds=1)
    return lambda: last.update(at=another)


def test_a_copy_that_is_pulled_while_an_event_is_lost_starts_again(a_loss, engine):
    copy = DeskCopy()
    copy.refresh(Reader(engine, between=a_loss))
    assert len(copy.desks) == 3
    assert code(get(f"{DESKS}?changedSince={copy.as_of}", engine)) == "ok"


def test_a_copy_whose_next_has_no_digest_starts_again_the_next_time(a_loss, engine, monkeypatch):
    monkeypatch.setattr(api, "scan_cursor", lambda *place: scan_cursor(*place[:4]))
    copy = DeskCopy()
    copy.refresh(Reader(engine, between=a_loss))
    assert len(copy.desks) == 3
    assert code(get(f"{DESKS}?changedSince={copy.as_of}", engine)) == "cursor_lost"


# --- The oracle: a copy that follows the changes, and a full pull ---------------------------------


class World:
    """Desks, bots and a card that change at random."""

    def __init__(self, seed):
        self._dice = random.Random(seed)
        a_card()
        for _ in range(6):
            a_ready_desk(Card.objects.published().get())

    def act(self):
        """One random change. One that the rules refuse changes nothing."""
        desk = self._dice.choice(list(Desk.objects.order_by("pk")))
        with contextlib.suppress(Refused):
            self._dice.choice(ACTS)(desk)

    def maybe_act(self):
        if self._dice.random() < 0.6:
            self.act()


def enrol(desk):
    card = Card.objects.published().first()
    if card:
        actions.enrol(desk=desk, card_id=card.pk, actor=SYSTEM)


def remove_bots(desk):
    for bot in Automation.objects.not_removed().filter(desk=desk):
        tokens.remove_automation(automation=bot, actor=SYSTEM)


ACTS = [
    *[enrol] * 4,
    *[lambda desk: actions.connect(desk=desk, venue="Kraken", actor=SYSTEM)] * 3,
    *[lambda desk: actions.withdraw(desk=desk, actor=SYSTEM)] * 2,
    lambda desk: actions.disconnect(desk=desk, actor=SYSTEM),
    a_bot,
    remove_bots,
    lambda _: a_card("Another"),
    lambda _: actions.retire_card(actor=SYSTEM),
    lambda desk: account_closing.deactivate(user=desk.user, actor=SYSTEM),
    *[lambda desk: account_closing.reactivate(user=desk.user, actor=SYSTEM)] * 2,
    close_account,
    lambda _: a_desk(),
]


def pulled(reader):
    """All desks by their id, as a full pull shows them."""
    return {desk["userId"]: desk for page in reader.desk_pages() for desk in page["desks"]}


@pytest.mark.parametrize("seed", range(2))
def test_a_copy_that_follows_the_changes_is_what_a_full_pull_shows(seed):
    world, token = World(seed), a_platform_token()
    busy, quiet, copy = Reader(token, between=world.maybe_act), Reader(token), DeskCopy()
    for _ in range(8):
        copy.refresh(busy)
        world.act()
        copy.refresh(quiet)
        assert copy.desks == pulled(quiet)


@pytest.mark.parametrize("seed", range(2))
def test_who_pulled_only_the_ready_desks_follows_them_too(seed):
    world, token = World(seed), a_platform_token()
    first = listed(token, ready=1)
    copy = DeskCopy({desk["userId"]: desk for desk in first["desks"]}, first["asOf"])
    for _ in range(8):
        world.act()
        copy.refresh(Reader(token, between=world.maybe_act))
    copy.refresh(Reader(token))
    ready = {user_id for user_id, desk in copy.desks.items() if desk["ready"]}
    assert ready == {desk["userId"] for desk in listed(token, ready=1)["desks"]}


def change(seed, times):
    """Changes desks at random, in a process of its own."""
    UserFactory.reset_sequence(1000 * seed)  # so that no two processes make the same address
    world = World.__new__(World)
    world._dice = random.Random(seed)
    for _ in range(times):
        world.act()


@pytest.mark.processes
@pytest.mark.django_db(transaction=True)
def test_a_copy_loses_nothing_while_other_processes_write():
    World(0)
    token, copy = a_platform_token(), DeskCopy()
    reader, seen = Reader(token), set()
    with started_together(change, [(seed, 60) for seed in (1, 2)]) as writers:
        while not all(writer.done() for writer in writers):
            copy.refresh(reader)
            seen.add(copy.as_of)
        for writer in writers:
            writer.result()
    copy.refresh(reader)
    assert copy.desks == pulled(reader)
    assert len(seen) > 2, "nothing was read while the others wrote"

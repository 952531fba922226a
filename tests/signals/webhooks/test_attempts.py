"""Attempts, skipping, and sending again from a time (contract, section 4, subscriptions)."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from desks.actions import connect, elect
from desks.models import Desk
from events import feed
from events.actors import SYSTEM
from events.http.cursors import log_position
from events.models import Event, Head
from events.times import to_rfc3339
from signals.outbound.answers import Fault
from signals.webhooks import actions
from signals.webhooks.models import MAX_RESENDS, DeliveryAttempt, Subscription
from tests import described, factories
from tests.client import code, faults, signed_in
from tests.signals.webhooks.stage import (
    a_lagging_webhook,
    a_webhook,
    act,
    add_bots,
    an_active_webhook,
    cursor_at,
    let_fail,
    of,
)
from tokens import actions as tokens

pytestmark = pytest.mark.django_db


@pytest.fixture
def desk() -> Desk:
    return factories.a_desk()


@pytest.fixture
def owner(desk) -> Client:
    return signed_in(desk.user, "password")


def attempt(webhook: Subscription, position: int | None, **more: Any) -> DeliveryAttempt:
    row = DeliveryAttempt(
        subscription=webhook, position=position, at=timezone.now(), milliseconds=5, **more
    )
    row.keep_answer(b"no such path: /quietly")
    row.save()
    return row


def moved() -> list[dict[str, Any]]:
    """The data of each move of a cursor."""
    events = Event.objects.filter(kind="subscription.rewound").order_by("position")
    return [event.content["data"] for event in events]


def moves() -> list[int]:
    """The positions to which cursors were moved."""
    return [data["position"] for data in moved()]


def skip_all(webhook: Subscription) -> int | None:
    webhook.refresh_from_db()
    head = Head.objects.get().position
    return actions.skip(webhook=webhook, actor=SYSTEM, until=head)


def a_bot_that_elects(desk: Desk, kind: str) -> tuple[factories.Bot, Subscription]:
    """A bot with 6 events since a webhook of this kind of its events was made."""
    connect(desk=desk, venue="Kraken", actor=SYSTEM)
    bot = factories.a_bot(desk)
    webhook = a_webhook(desk, kind, bot=bot.id)
    for pair in ("A/B", "C/D", "E/F"):
        elect(automation=bot.automation, pair=pair, direction="long", actor=SYSTEM)
    return bot, webhook


# --- Attempts -------------------------------------------------------------------------------------


def test_attempts_are_listed_the_newest_first_without_what_was_answered(desk, owner):
    webhook = an_active_webhook(desk)
    attempt(webhook, None, status=200, error=Fault.UNPROVEN)
    attempt(webhook, 2, status=None, error=Fault.TIMEOUT)
    attempt(webhook, 2, status=204)
    attempt(webhook, 10**6, status=500)  # of a log that was restored
    answer = owner.get(f"{of(webhook)}/attempts")
    listed = [
        (one["kind"], one["event"], one["status"], one["error"])
        for one in answer.json()["attempts"]
    ]
    kind = Event.objects.get(position=2).kind
    assert listed == [
        (None, "evt_1000000", 500, None),
        (kind, "evt_2", 204, None),
        (kind, "evt_2", None, "timeout"),
        ("subscription.test", None, 200, "unproven"),
    ]
    assert {one["milliseconds"] for one in answer.json()["attempts"]} == {5}
    assert "quietly" not in answer.text
    assert described.faults("listAttempts", answer) == []


def test_attempts_come_in_pages(desk, owner):
    webhook, other = an_active_webhook(desk), a_webhook(desk)
    for status in (201, 202, 203):
        attempt(webhook, 2, status=status)
    first = owner.get(f"{of(webhook)}/attempts?limit=2").json()
    second = owner.get(f"{of(webhook)}/attempts?limit=2&after={first['next']}").json()
    pages = [[one["status"] for one in page["attempts"]] for page in (first, second)]
    assert (pages, second["next"]) == ([[203, 202], [201]], None)
    foreign = owner.get(f"{of(other)}/attempts?after={first['next']}")
    assert faults(foreign) == {"after": "cursor"}


# --- Skipping, and sending again from a time ------------------------------------------------------


def test_the_next_or_all_that_wait_are_skipped(desk, owner):
    webhook = an_active_webhook(desk, "automation.created")
    first, second, third = add_bots(desk, 3)
    assert act(owner, webhook, "skip", events="next").json()["lag"] == 2
    assert act(owner, webhook, "skip", events="next").json()["lag"] == 1
    assert moves() == [first, second]
    record = act(owner, webhook, "skip", events="all").json()
    assert (record["lag"], moves()[-1] > third) == (0, True)
    head = Head.objects.get().position
    assert act(owner, webhook, "skip", events="next").status_code == 200
    assert Head.objects.get().position == head  # nothing waits: nothing changes


def test_what_was_delivered_meanwhile_is_not_sent_again(desk):
    webhook = an_active_webhook(desk)
    [head] = add_bots(desk)
    Subscription.objects.update(cursor_position=head)  # by a runner, after the row was read
    assert actions.skip(webhook=webhook, actor=SYSTEM, until=head) == 0
    assert Subscription.objects.get().cursor_position == head
    assert moves() == []


def test_the_log_says_how_many_events_were_skipped(desk, owner, monkeypatch):
    webhook = an_active_webhook(desk, "automation.created")
    add_bots(desk, 3)
    act(owner, webhook, "skip", events="next")
    act(owner, webhook, "skip", events="all")
    assert [data["skipped"] for data in moved()] == [1, 2]
    act(owner, webhook, "rewind", since="2000-01-01T00:00:00Z")
    assert "skipped" not in moved()[-1]
    monkeypatch.setattr("signals.webhooks.models.MAX_LAG", 2)  # of the 3 that wait again
    monkeypatch.setattr(actions, "MAX_LAG", 2)
    assert skip_all(webhook) == 3
    assert moved()[-1]["skipped"] is None


def test_the_event_of_a_skip_does_not_wait_itself_unless_others_do(desk, owner):
    webhook = an_active_webhook(desk)  # of all kinds
    assert skip_all(webhook)
    assert Subscription.objects.get().lag == 0
    first, second = add_bots(desk, 2)
    act(owner, webhook, "skip", events="next")
    assert Subscription.objects.get().cursor_position == first  # the other is not passed over
    act(owner, webhook, "skip", events="next")
    webhook.refresh_from_db()
    assert actions.next_position(webhook) == second + 1  # what says that one was skipped
    act(owner, webhook, "skip", events="next")
    assert Subscription.objects.get().lag > 0  # so does the second
    assert skip_all(webhook)
    assert Subscription.objects.get().lag == 0


def test_what_is_not_found_in_reasonable_time_is_looked_for_with_the_next_request(
    desk, owner, monkeypatch
):
    bot, webhook = a_bot_that_elects(desk, "automation.removed")
    tokens.remove_automation(automation=bot.automation, actor=SYSTEM)
    removed = Event.objects.get(kind="automation.removed").position
    assert owner.get(of(webhook)).json()["lag"] == 1
    monkeypatch.setattr(feed, "MAX_CHECKED_PER_PAGE", 2)
    monkeypatch.setattr(feed, "MAX_PAGES_AHEAD", 1)
    assert owner.get(of(webhook)).json()["lag"] is None
    head, cursors, record = Head.objects.get().position, [], {"lag": None}
    while record["lag"] is None:
        record = act(owner, webhook, "skip", events="next").json()
        cursors.append(
            log_position(record["cursor"], webhook.cursor_epoch, head, feed.read_identity)
        )
    assert cursors == sorted(set(cursors))  # each request looks on
    assert (moves(), record["lag"]) == ([], 1)
    act(owner, webhook, "skip", events="next")
    assert moves() == [removed]


def test_all_that_waits_is_skipped_although_it_is_not_counted(desk, owner, monkeypatch):
    _, webhook = a_bot_that_elects(desk, "election.withdrawn")
    monkeypatch.setattr(feed, "MAX_CHECKED_PER_PAGE", 2)
    monkeypatch.setattr(feed, "MAX_PAGES_AHEAD", 1)
    head = Head.objects.get().position
    assert act(owner, webhook, "skip", events="all").json()["lag"] == 0
    assert moved()[-1]["position"] == head
    assert "skipped" not in moved()[-1]


def test_a_webhook_that_skips_is_still_failing_and_tries_the_next_event_at_once(desk):
    webhook = let_fail(an_active_webhook(desk), 20)
    later = timezone.now() + timedelta(hours=1)
    Subscription.objects.update(next_attempt_at=later, not_before=later)
    assert skip_all(webhook)
    found = Subscription.objects.get()
    assert (found.shown_state, found.failures) == ("failing", webhook.failures)
    assert found.failing_since == webhook.failing_since
    assert Subscription.objects.due(timezone.now() + timedelta(seconds=1)).exists()


def test_events_are_sent_again_from_a_time(desk, owner):
    webhook = an_active_webhook(desk)
    add_bots(desk)
    skip_all(webhook)
    event = Event.objects.get(kind="automation.created")
    assert act(owner, webhook, "rewind", since=to_rfc3339(event.at)).json()["lag"] >= 1
    webhook.refresh_from_db()
    passed = Event.objects.filter(position__lte=webhook.cursor_position)
    assert not passed.filter(at__gte=event.at).exists()
    act(owner, webhook, "rewind", since="2000-01-01T00:00:00Z")
    assert moves()[-1] == 0


def test_a_rewind_to_a_time_skips_what_waits_from_before(desk, owner):
    webhook, waiting = a_lagging_webhook(desk)
    first_of_now = Event.objects.get(position=waiting[-2])
    assert act(owner, webhook, "rewind", since=to_rfc3339(first_of_now.at)).json()["lag"] == 2
    assert moves() == [waiting[-2] - 1]


def test_a_cursor_that_was_moved_back_meanwhile_is_not_moved_forward(desk):
    webhook, waiting = a_lagging_webhook(desk)
    first, last = webhook.cursor_position, waiting[-1]
    webhook.cursor_position = last  # as it was when the row was read
    actions.move(webhook=webhook, position=last - 1, actor=SYSTEM, may_skip=False)
    assert Subscription.objects.get().cursor_position == first


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"since": "2999-01-01T00:00:00Z"}, {"since": "range"}),  # it would skip what waits
        ({"since": "2026-01-01T00:00:00Z", "after": "x"}, {"since": "contradiction"}),
        ({}, {"after": "required"}),
    ],
)
def test_a_rewind_that_names_no_time_or_cursor_of_the_past_is_refused(desk, owner, body, expected):
    assert faults(act(owner, an_active_webhook(desk), "rewind", **body)) == expected
    assert moves() == []


# --- A single event again -------------------------------------------------------------------------


def own_event(desk: Desk) -> Event:
    return Event.objects.filter(topic=desk.public_id).latest("position")


def test_one_event_waits_to_be_sent_again_and_nothing_else_changes(desk, owner):
    webhook, event = an_active_webhook(desk, "card.retired"), own_event(desk)
    head = Head.objects.get().position
    answer = act(owner, webhook, "resend", event=event.id)
    assert (answer.status_code, answer.json()["resends"]) == (202, [event.id])
    assert described.faults("resendEvent", answer) == []
    again = act(owner, webhook, "resend", event=event.id)  # it waits already
    assert (again.json()["resends"], again.json()["cursor"]) == (
        [event.id],
        cursor_at(webhook.cursor_position),
    )
    assert Head.objects.get().position == head
    assert Subscription.objects.due(timezone.now() + timedelta(seconds=1)).get() == webhook


def test_only_what_the_owner_sees_is_sent_again(desk, owner):
    webhook, other = an_active_webhook(desk), own_event(factories.a_desk())
    for event in (other.id, "evt_99999", f"evt_{'9' * 18}"):
        assert code(act(owner, webhook, "resend", event=event)) == "not_found"
    for wrong in ("evt_0", "evt_1 ", "1", f"evt_{'9' * 19}", ""):
        assert code(act(owner, webhook, "resend", event=wrong)) == "invalid"
    assert faults(act(owner, webhook, "resend", event=5)) == {"event": "type"}
    assert not Subscription.objects.get().resends


def test_a_url_that_never_answered_a_test_gets_no_event(desk, owner):
    webhook, event = a_webhook(desk), own_event(desk)
    assert code(act(owner, webhook, "resend", event=event.id)) == "invalid"
    assert actions.verify(webhook=webhook)
    act(owner, webhook, "resend", event=event.id)
    assert Subscription.objects.get().resends == [event.position]
    actions.change(webhook=webhook, url="https://other.example/", actor=SYSTEM)
    assert Subscription.objects.get().resends is None


def test_so_many_wait_at_most(desk, owner):
    webhook, event = an_active_webhook(desk), own_event(desk)
    Subscription.objects.update(resends=list(range(10**6, 10**6 + MAX_RESENDS)))
    assert code(act(owner, webhook, "resend", event=event.id)) == "invalid"

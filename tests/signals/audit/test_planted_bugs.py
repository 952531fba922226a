"""The audit finds what mistakes in the code of the actions leave behind.

Each case plants one mistake, by another line in the source of a function, and then lets two desks
live through the actions: one is deactivated and comes back, the other one keeps what it has.
"""

import inspect
import textwrap
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from desks import actions, expectations
from desks.models import Desk
from events.actors import SYSTEM
from signals.webhooks import actions as webhooks
from tests.factories import a_bot, a_card, a_desk, a_desk_token, a_ready_desk, expect, expecting
from tests.signals.audit.stage import broken
from tests.signals.webhooks.stage import a_webhooks_life
from tokens import account_closing
from tokens import actions as tokens
from tokens.choices import Source

pytestmark = [pytest.mark.django_db, pytest.mark.slow, pytest.mark.once]

NOTHING = "(lambda *arguments, **named: None)("  # a call that does nothing
# A function, a part of its source, the mistake in its place, and a promise that it breaks.
Bug = tuple[Callable[..., Any], str, str, str]
OF_DESKS: list[Bug] = [
    (actions.disconnect, "close_elections(turn, desk, standing, reason)", "pass", "events"),
    (actions.disconnect, "turn.append(", NOTHING, "connections"),
    (actions.enrol, 'F("standing") + 1', 'F("standing") + 2', "cards"),
    (actions.publish_card, "turn.position,", "turn.position - 1,", "cards"),
    (actions.connect, 'data={"venue": venue}', 'data={"venue": "Venue"}', "connections"),
    (actions.set_deactivated, "desk, deactivated=deactivated", "desk", "desks"),
    (
        actions._save_closed,
        "Desk.objects.filter(pk=desk.pk)",
        "Desk.objects.none()",
        "desks",
    ),
    (actions.open_election, "elected_at=turn.at", "elected_at=desk.created_at", "elections"),
    (actions.remove_bots, "_append_withdrawal(", NOTHING, "events"),
    (
        actions.remove_bots,
        "removed_at=turn.at, **NOT_EXPECTED",
        "removed_at=turn.at",
        "automations",
    ),
    (
        expectations._columns,
        '"expected_since": at',
        '"expected_since": at.replace(year=2000)',
        "automations",
    ),
    (tokens.revoke, "token.revoked_at = turn.at", "token.revoked_at = token.created_at", "tokens"),
    (tokens._save, "turn.append(", "token.desk or turn.append(", "tokens"),
    (tokens._store_end, "rows.update(ends_at=moment)", "rows.update(ends_at=turn.at)", "secrets"),
    (tokens._remove_bots, "secrets = list(", "secrets = [] and list(", "events"),
    (tokens.end_desk, "_revoke_all(desk, actor)", "pass", "events"),
]
OF_WEBHOOKS: list[Bug] = [
    (tokens.end_desk, "desk_ends.send(Desk, desk=desk, turn=turn)", "pass", "events"),
    (webhooks._replace_url, "revision=row.revision + 1", "revision=row.revision", "subscriptions"),
    (webhooks.pause, "append(", NOTHING, "events"),
    (
        webhooks.replace_secret,
        "live.update(ends_at=previous_ends_at)",
        "live.update(ends_at=turn.at)",
        "webhook_secrets",
    ),
    (webhooks.remove_rows, "append(", NOTHING, "subscriptions"),
]


def desks_live() -> None:
    card, hour = a_card(), timedelta(hours=1)
    for is_deactivated in (True, False):
        desk = a_ready_desk(card)
        bot, gone = a_bot(desk), a_bot(desk)
        expect(bot, expecting(hour, hour))
        expect(gone, expecting(hour, hour))
        a_desk_token(desk), a_desk_token(desk)
        tokens.generate_secret(
            source=Source.TRADINGVIEW, automation=bot.automation, overlap=hour, actor=SYSTEM
        )
        tokens.remove_automation(automation=gone.automation, actor=SYSTEM)
        actions.disconnect(desk=desk, actor=SYSTEM)
        actions.connect(desk=desk, venue="Kraken", actor=SYSTEM)
        actions.enrol(desk=desk, card_id=card.pk, actor=SYSTEM)
        if is_deactivated:
            deactivate_and_reactivate(desk)
    actions.withdraw(desk=desk, actor=SYSTEM)


def webhooks_live() -> None:
    for is_deactivated in (True, False):
        desk = a_desk()
        a_webhooks_life(desk)
        if is_deactivated:
            deactivate_and_reactivate(desk)


def deactivate_and_reactivate(desk: Desk) -> None:
    account_closing.deactivate(user=desk.user, actor=SYSTEM)
    account_closing.reactivate(user=desk.user, actor=SYSTEM)


def plant(
    monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any], right: str, wrong: str
) -> None:
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(right) == 1
    planted: dict[str, Any] = {}
    exec(source.replace(right, wrong), function.__globals__, planted)  # noqa: S102 - our own source
    monkeypatch.setattr(function, "__code__", planted[function.__name__].__code__)


@pytest.mark.parametrize(
    ("live", "function", "right", "wrong", "promise"),
    [*((desks_live, *bug) for bug in OF_DESKS), *((webhooks_live, *bug) for bug in OF_WEBHOOKS)],
)
def test_a_mistake_in_an_action_is_found(monkeypatch, live, function, right, wrong, promise):
    plant(monkeypatch, function, right, wrong)
    live()
    assert promise in broken()


def test_an_election_that_outlives_its_bot_is_found_although_no_event_follows(monkeypatch):
    plant(monkeypatch, actions.remove_bots, "filter(automation__in=bots)", "none()")
    tokens.remove_automation(automation=a_bot(a_ready_desk(a_card())).automation, actor=SYSTEM)
    assert "events" in broken()


def test_the_lives_without_a_mistake_break_no_promise():
    desks_live()
    webhooks_live()
    assert broken() == {}

"""A desk's bots as the API lists them (contract, section 4, bots)."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from desks.models import Automation, Desk
from events.choices import TextEnum
from events.feed.head import read_head
from events.kinds import Kind
from events.models import Event
from events.times import to_rfc3339
from signals.reports.tallies import BotTally, count_bots


class State(TextEnum):
    """Whether a bot's signals are accepted, or what is missing first."""

    ACCEPTS_SIGNALS = "accepts_signals"
    NO_ELECTION = "no_election"
    NO_SECRET = "no_secret"  # noqa: S105 - a state


def bot_records(desk: Desk, bots: Sequence[Automation], now: datetime) -> list[dict[str, Any]]:
    """The record of each bot. ``bots`` are some of ``bots_at_a_glance``. Takes four queries."""
    if not bots:
        return []
    head = read_head().position
    tallies = count_bots(desk.public_id, head, [bot.pk for bot in bots], now)
    last = _last_events(tallies.values())
    return [_record(bot, tallies[bot.pk], last) for bot in bots]


def _last_events(tallies: Iterable[BotTally]) -> dict[int, Event]:
    """The event of each bot's latest signal, by its position."""
    return Event.objects.in_bulk([tally.latest[0][1] for tally in tallies if tally.latest])


def _record(bot: Any, tally: BotTally, last: Mapping[int, Event]) -> dict[str, Any]:
    election = {
        "pair": bot.pair,
        "direction": bot.direction,
        "electedAt": to_rfc3339(bot.elected_at),
    }
    expectation = bot.expectation
    return {
        "botId": bot.pk,
        "name": bot.name,
        "createdAt": to_rfc3339(bot.created_at),
        "state": _state(bot).value,
        "expected": expectation.to_dict() if expectation else None,
        "silentSince": to_rfc3339(bot.silent_since),
        "maxAge": bot.max_age,
        "election": election if bot.pair else None,
        "last": _outcome(last[tally.latest[0][1]]) if tally.latest else None,
        "today": {
            "filled": tally.today.filled,
            "refused": tally.today.refused,
            "more": bool(tally.today.cut),
        },
    }


def _state(bot: Any) -> State:
    if not bot.pair:
        return State.NO_ELECTION
    return State.ACCEPTS_SIGNALS if bot.has_secret else State.NO_SECRET


def _outcome(event: Event) -> dict[str, Any]:
    """What became of the bot's latest signal, and the event that says so."""
    return {
        "outcome": "filled" if event.kind == Kind.SIGNAL_FILLED else "refused",
        "code": event.content["data"].get("code"),
        "signal": event.signal_id,
        "event": event.id,
        "at": to_rfc3339(event.at),
    }

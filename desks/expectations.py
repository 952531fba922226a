"""What is expected of a bot's signals: the action that changes it, and the watch for silent bots.

A bot that is ``due_at`` is looked at. If it was heard in time, it is due later. Otherwise a turn
at the log decides again, with what was heard until then, and writes ``automation.quiet``. So any
number of processes write it once, and a restart loses nothing: the state is in the bot's row.

A signal does not touch the row of its bot, so it costs nothing. The fills in the log tell that a
silent bot was heard again.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Max, QuerySet
from django.utils import timezone

from desks.actions import refuse_inactive, refuse_removed
from desks.expectation_rules import MAX_AGE, MAX_EVERY, MAX_GRACE, MIN_EVERY, Expectation
from desks.models import Automation, Bookmark, User
from desks.models.automation import NOT_EXPECTED, AutomationQuerySet
from events import log
from events.actors import SYSTEM, Actor
from events.feed import IndexRange, in_order, read_head
from events.http.refusals import FieldCode, Invalid
from events.kinds import Kind
from events.models import Event, Head
from events.statements import fetch_all, parse_datetime
from events.times import to_rfc3339, zone_named

MAX_PER_TURN = 50  # bounds how long one turn holds the log's lock
# How much one statement reads of the log, and of a bot's events. One that took longer than its
# timeout would end the watch for everybody, and again at each start.
POSITIONS_AT_ONCE = 2000
PARTS_AT_ONCE = 50  # of so many positions, in one look
EVENTS_AT_FIRST, EVENTS_AT_ONCE = 20, 500
HEARD = "bots heard again"  # the name of a bookmark
Columns = Mapping[str, int | datetime | None]  # of a bot
FILL = Kind.SIGNAL_FILLED  # every accepted signal of a bot is a fill


def change_automation(
    *,
    automation: Automation,
    expectation: Expectation | None,
    max_age: int | None,
    actor: Actor,
) -> None:
    """Changes how often a bot is expected to send, and how old its signals may be.

    Another expectation starts anew: its time counts from now, and the bot is not silent. Raises
    ``Invalid`` if a length of time is out of range or the bot was removed.
    """
    _check_ranges(expectation, max_age)
    with log.turn(actor=actor) as turn:
        refuse_inactive(automation.desk)
        refuse_removed(automation)
        bot = Automation.objects.select_related("desk__user").get(pk=automation.pk)
        if (bot.expectation, bot.max_age) == (expectation, max_age):
            return
        changed: Columns = {"max_age": max_age}
        if bot.expectation != expectation:
            changed = {**changed, **_columns(expectation, turn.at, zone_of(bot))}
        for name, value in changed.items():
            setattr(bot, name, value)
        bot.save(update_fields=changed)
        turn.append(Kind.AUTOMATION_CHANGED, topic=bot.desk.public_id, data=bot.as_change_data())


def count_days_in_new_zone(user: User) -> None:
    """Looks again at bots that are expected on trading days, after their owner's zone changed."""
    on_trading_days = Automation.objects.filter(due_at__isnull=False, every=None)
    # One row at a time: a turn that removes them may have locked some.
    for bot in on_trading_days.filter(desk__user=user):
        on_trading_days.filter(pk=bot.pk).update(due_at=timezone.now())


def zone_of(bot: Automation) -> str:
    """The time zone in which a bot's trading days are counted: its owner's, or UTC."""
    return zone_named(bot.desk.user.time_zone).key


def _check_ranges(expectation: Expectation | None, max_age: int | None) -> None:
    if max_age is not None and not 1 <= max_age <= MAX_AGE:
        raise Invalid.field("maxAge", FieldCode.RANGE, "Choose an age of one second to one day.")
    if expectation is None:
        return
    if expectation.every is not None and not MIN_EVERY <= expectation.every <= MAX_EVERY:
        raise Invalid.field("every", FieldCode.RANGE, "Choose a time of 15 minutes to 31 days.")
    if not 0 <= expectation.grace <= MAX_GRACE:
        raise Invalid.field("grace", FieldCode.RANGE, "Choose a grace of at most one day.")


def _columns(expectation: Expectation | None, at: datetime, zone: str) -> Columns:
    if expectation is None:
        return NOT_EXPECTED
    return {
        **NOT_EXPECTED,
        "every": expectation.every,
        "grace": expectation.grace,
        "expected_since": at,
        "due_at": expectation.deadline(at, zone),
    }


# --- The watch ------------------------------------------------------------------------------------


def watch(now: datetime) -> bool:
    """Decides which bots are silent at ``now``, or were heard again. Returns whether to read on.

    There is more to read if nobody has watched for long. Bots that are late do not wait for it.
    """
    parts = 1
    while (more := _look_for_heard()) and parts < PARTS_AT_ONCE:
        parts += 1
    while _look_for_late(now):
        pass
    return more


def _look_for_heard() -> bool:
    """Records ``automation.heard`` for each silent bot with a fill in the next part of the log.

    Returns whether there is more to read. A bookmark says how far the log was read: any number of a
    bot's signals can have been refused since it fell silent.
    """
    head = read_head()
    silent = Automation.objects.silent()
    first = silent.order_by("silent_from").values_list("silent_from", flat=True).first()
    if first is None:
        return False
    after = max(first, _read_to(head))
    upto = min(head.position, after + POSITIONS_AT_ONCE)
    if upto == after:
        return False
    new = Event.objects.filter(position__gt=after, position__lte=upto)
    heard = _heard_again(silent, new.filter(kind=FILL, bot_id__isnull=False))
    for start in range(0, len(heard), MAX_PER_TURN):
        _record_heard(heard[start : start + MAX_PER_TURN])
    place = {"epoch": head.epoch, "position": upto}
    Bookmark.objects.update_or_create(name=HEARD, defaults=place)
    return upto < head.position


def _read_to(head: Head) -> int:
    """The position up to which this log was read, 0 if that is not known or is beyond its end.

    Every fill up to there, of a bot that was silent then, has its ``automation.heard``.
    """
    kept = Bookmark.objects.filter(name=HEARD, epoch=head.epoch, position__lte=head.position)
    return kept.values_list("position", flat=True).first() or 0


def _heard_again(silent: AutomationQuerySet, fills: QuerySet[Event]) -> list[Any]:
    """The silent bots that sent these, with ``heard``: when the first since then was accepted."""
    sent = list(fills.order_by("position").values_list("position", "bot_id", "at"))
    senders = silent.filter(pk__in={bot_id for _, bot_id, _ in sent})
    bots: dict[str | None, Any] = {bot.pk: bot for bot in senders.select_related("desk__user")}
    heard: dict[str, Any] = {}
    for position, bot_id, at in sent:
        bot = bots.get(bot_id)
        if bot and bot.pk not in heard and position > bot.silent_from:
            bot.heard = at
            heard[bot.pk] = bot
    return list(heard.values())


def _look_for_late(now: datetime) -> bool:
    """Looks at the next bots that are due. Returns whether more may be."""
    head = read_head().position
    due = Automation.objects.filter(due_at__lte=now).order_by("due_at", "pk")
    bots = _with_heard(due[:MAX_PER_TURN], head)
    late = []
    for bot in bots:
        deadline = _deadline(bot, bot.heard)
        if deadline > now:
            Automation.objects.filter(pk=bot.pk, due_at=bot.due_at).update(due_at=deadline)
        else:
            late.append(bot)
    recorded = _record_late(late, head) if late else 0
    return len(bots) == MAX_PER_TURN and recorded == len(late)


def _record_late(late: Sequence[Automation], head: int) -> int:
    """Records ``automation.quiet`` for those that are still late; returns their number.

    ``head`` is the position up to which it is known when they were heard.
    """
    with log.turn(actor=SYSTEM) as turn:
        fills = Event.objects.filter(position__gt=head, kind=FILL)
        fills = fills.filter(bot_id__in=[bot.pk for bot in late]).order_by()
        heard = dict(fills.values_list("bot_id").annotate(Max("at")))
        recorded = 0
        for bot in _unchanged(late, "due_at"):
            since = heard.get(bot.pk, bot.heard)
            deadline = _deadline(bot, since)
            changed: Columns = {"due_at": deadline}
            if deadline <= turn.at:
                event = _append(turn, bot, Kind.AUTOMATION_QUIET, since=since, dueAt=deadline)
                changed = {"due_at": None, "silent_since": since, "silent_from": event.position}
                recorded += 1
            Automation.objects.filter(pk=bot.pk).update(**changed)
    return recorded


def _record_heard(bots: Sequence[Any]) -> None:
    """Records ``automation.heard`` for those that are still silent. Then they are due again."""
    with log.turn(actor=SYSTEM) as turn:
        for bot in _unchanged(bots, "silent_from"):
            _append(turn, bot, Kind.AUTOMATION_HEARD, since=bot.silent_since, heardAt=bot.heard)
            Automation.objects.filter(pk=bot.pk).update(
                silent_since=None, silent_from=None, due_at=_deadline(bot, bot.heard)
            )


def _unchanged(bots: Sequence[Automation], column: str) -> list[Any]:
    """The bots in whose rows the column is as it was read. Call it under the log's lock."""
    current = Automation.objects.in_bulk([bot.pk for bot in bots])
    return [bot for bot in bots if getattr(current[bot.pk], column) == getattr(bot, column)]


def _with_heard(bots: AutomationQuerySet, head: int) -> list[Any]:
    """The bots with ``heard``: when each was last heard, up to the position ``head``.

    The time of a bot begins when its owner said that it is expected.
    """
    found: list[Any] = list(bots.select_related("desk__user"))
    for bot in found:
        bot.heard = _last_heard(bot, bot.expected_since, head)
    return found


def _last_heard(bot: Automation, since: datetime, head: int) -> datetime:
    """When the last signal of a bot was accepted, or ``since`` if that is later.

    Most often it is among the bot's newest events. A bot can have any number of refusals after it:
    each statement reads a limited number of them, backwards.
    """
    limit = EVENTS_AT_FIRST
    while True:
        of_bot = IndexRange({"topic": bot.desk.public_id, "bot_id": bot.pk}, 1, head)
        events = fetch_all(*in_order("position, kind, at", of_bot, limit, "DESC"))
        for _, kind, at in events:
            if kind == FILL:
                return max(since, parse_datetime(at))
        if len(events) < limit or parse_datetime(events[-1][2]) <= since:
            return since
        head, limit = events[-1][0] - 1, EVENTS_AT_ONCE


def _deadline(bot: Automation, heard: datetime) -> datetime:
    expectation = bot.expectation
    if expectation is None:
        raise ValueError(f"{bot.pk} is not expected.")
    return expectation.deadline(heard, zone_of(bot))


def _append(turn: log.Turn, bot: Automation, kind: Kind, **times: datetime) -> Event:
    said = {name: to_rfc3339(at) for name, at in times.items()}
    return turn.append(kind, topic=bot.desk.public_id, data={**bot.as_event_data(), **said})

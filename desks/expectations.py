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

from django.db.models import Max, OuterRef, QuerySet, Subquery
from django.utils import timezone

from desks.actions import refuse_inactive, refuse_removed
from desks.expectation_rules import MAX_AGE, MAX_EVERY, MAX_GRACE, MIN_EVERY, Expectation
from desks.models import Automation, User
from desks.models.automation import NOT_EXPECTED, AutomationQuerySet
from events import log
from events.actors import SYSTEM, Actor
from events.feed import read_head
from events.http.refusals import FieldCode, Invalid
from events.kinds import Kind
from events.models import Event
from events.times import to_rfc3339, zone_named

MAX_PER_TURN = 50  # bounds how long one turn holds the log's lock
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
    on_trading_days.filter(desk__user=user).update(due_at=timezone.now())


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


class Watch:
    """The watch of one process. It remembers how far it has read the log."""

    def __init__(self) -> None:
        self._read_to: int | None = None

    def look(self, now: datetime) -> None:
        """Decides everything that is due at ``now``."""
        self._look_for_heard()
        while _look_for_late(now):
            pass

    def _look_for_heard(self) -> None:
        """Records ``automation.heard`` for each silent bot that had a signal accepted."""
        head = read_head().position
        silent = Automation.objects.silent()
        if self._read_to is not None and self._read_to <= head:
            new = Event.objects.filter(position__gt=self._read_to, position__lte=head)
            found = new.filter(kind=FILL, bot_id__in=silent.values("pk"))
            silent = silent.filter(pk__in=set(found.values_list("bot_id", flat=True)))
        heard = _with_heard(silent, first_after="silent_from").filter(heard__isnull=False)
        while bots := list(heard[:MAX_PER_TURN]):
            _record_heard(bots)
        self._read_to = head


def _look_for_late(now: datetime) -> bool:
    """Looks at the next bots that are due. Returns whether more may be."""
    head = read_head().position
    due = Automation.objects.filter(due_at__lte=now).order_by("due_at", "pk")
    bots = list(_with_heard(due)[:MAX_PER_TURN])
    late = []
    for bot in bots:
        deadline = _deadline(bot, _last_heard(bot.expected_since, bot.heard))
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
            since = heard.get(bot.pk) or _last_heard(bot.expected_since, bot.heard)
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


def _with_heard(bots: AutomationQuerySet, first_after: str = "") -> QuerySet[Any]:
    """The bots with ``heard``: when their last signal was accepted, None if none was.

    ``first_after`` names a column with a position: then it is the first signal after that.
    """
    fills = Event.objects.filter(
        topic=OuterRef("desk__public_id"), bot_id=OuterRef("pk"), kind=FILL
    )
    if first_after:
        fills = fills.filter(position__gt=OuterRef(first_after))
    latest = fills.order_by("position" if first_after else "-position")
    return bots.select_related("desk__user").annotate(heard=Subquery(latest.values("at")[:1]))


def _last_heard(since: datetime, heard: datetime | None) -> datetime:
    """When a bot was last heard. Its time begins when its owner said that it is expected."""
    return max(since, heard) if heard else since


def _deadline(bot: Automation, heard: datetime) -> datetime:
    expectation = bot.expectation
    if expectation is None:
        raise ValueError(f"{bot.pk} is not expected.")
    return expectation.deadline(heard, zone_of(bot))


def _append(turn: log.Turn, bot: Automation, kind: Kind, **times: datetime) -> Event:
    said = {name: to_rfc3339(at) for name, at in times.items()}
    return turn.append(kind, topic=bot.desk.public_id, data={**bot.as_event_data(), **said})

"""Changes what is expected of a bot's signals, in one turn at the log with its event."""

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from desks.expectation_rules import MAX_AGE, MAX_EVERY, MAX_GRACE, MIN_EVERY, SECOND, Expectation
from desks.models import Automation, User
from desks.models.automation import NOT_EXPECTED
from desks.writes import refuse_inactive, refuse_removed
from events import log
from events.actors import Actor
from events.http.refusals import Invalid
from events.kinds import Kind

NO_TIME = timedelta(0)


def change_automation(
    *,
    automation: Automation,
    expectation: Expectation | None,
    max_age: timedelta | None,
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
        if (bot.expectation, bot.max_age) == (expectation, _seconds(max_age)):
            return
        if bot.expectation != expectation:
            _set(bot, _columns(expectation, turn.at, zone_of(bot)))
        bot.max_age = _seconds(max_age)
        bot.save(update_fields=["max_age", *NOT_EXPECTED])
        turn.append(Kind.AUTOMATION_CHANGED, topic=bot.desk.public_id, data=bot.as_change_data())


def count_days_in_new_zone(user: User) -> None:
    """Looks again at bots that are expected on trading days, after their owner's zone changed."""
    on_trading_days = Automation.objects.filter(due_at__isnull=False, every=None)
    on_trading_days.filter(desk__user=user).update(due_at=timezone.now())


def zone_of(bot: Automation) -> str:
    """The time zone in which a bot's trading days are counted: its owner's, or UTC."""
    return bot.desk.user.time_zone or "UTC"


def _check_ranges(expectation: Expectation | None, max_age: timedelta | None) -> None:
    if max_age is not None and not SECOND <= max_age <= MAX_AGE:
        raise Invalid.field("maxAge", "range", "Choose an age of one second to one day.")
    if expectation is None:
        return
    if expectation.every is not None and not MIN_EVERY <= expectation.every <= MAX_EVERY:
        raise Invalid.field("every", "range", "Choose a time of 15 minutes to 31 days.")
    if not NO_TIME <= expectation.grace <= MAX_GRACE:
        raise Invalid.field("grace", "range", "Choose a grace of at most one day.")


def _columns(expectation: Expectation | None, at: datetime, zone: str) -> dict[str, Any]:
    if expectation is None:
        return NOT_EXPECTED
    return {
        **NOT_EXPECTED,
        "every": _seconds(expectation.every),
        "grace": _seconds(expectation.grace),
        "expected_since": at,
        "due_at": expectation.deadline(at, zone),
    }


def _set(bot: Automation, columns: dict[str, Any]) -> None:
    for name, value in columns.items():
        setattr(bot, name, value)


def _seconds(length: timedelta | None) -> int | None:
    return None if length is None else length // SECOND

"""When a daily digest is due, and who gets one.

A day is one of the user's time zone. The row of a digest says what it will tell: whoever writes it
moves the row on in the same transaction. So each day is told once, and after a pause of all
processes one digest tells everything since the last.
"""

from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from django.db import transaction

from desks.models import Digest, User
from events.feed.head import read_head

HOURS = range(24)
DAY = timedelta(days=1)


def next_due(after: datetime, hour: int, zone: str) -> datetime:
    """The next time after ``after`` at which it is this hour in the zone. Pure.

    If the clock skips that hour, it is an hour later; if it shows the hour twice, the first one.
    """
    local = ZoneInfo(zone)
    day = after.astimezone(local).date()
    while (due := datetime.combine(day, time(hour), local).astimezone(after.tzinfo)) <= after:
        day += DAY
    return due


def choose_hour(user: User, hour: int | None, now: datetime) -> None:
    """Sends a digest at this hour from now on, or none. Choosing the same hour changes nothing."""
    with transaction.atomic():
        if hour is None:
            Digest.objects.filter(user=user).delete()
            return
        due = next_due(now, hour, zone_of(user))
        new = {"hour": hour, "since": now, "position": read_head().position, "due_at": due}
        digest, _ = Digest.objects.select_for_update().get_or_create(user=user, defaults=new)
        if digest.hour != hour:
            Digest.objects.filter(user=user).update(hour=hour, due_at=due)


def count_hours_in_new_zone(user: User, now: datetime) -> None:
    """Moves the user's next digest to its hour in the zone that the user chose."""
    with transaction.atomic():
        for digest in Digest.objects.select_for_update().filter(user=user):
            due = next_due(now, digest.hour, zone_of(user))
            Digest.objects.filter(user=user).update(due_at=due)


def zone_of(user: User) -> str:
    """The time zone of a user's days: the chosen one, or UTC."""
    return user.time_zone or "UTC"

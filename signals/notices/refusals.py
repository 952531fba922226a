"""Tells the refusals of a bot: the first one at once, then their number at most once an hour."""

from collections.abc import Collection
from datetime import datetime, timedelta

from desks.models import Automation, Notice, RefusalTold, User
from desks.notices.outbox import bookmarked, wanted
from events.models import Event
from signals.notices.texts import refusal_notice, refusals_notice

SUMMARY = timedelta(hours=1)
# The name of a bookmark. Whoever counts refusals, or tells their number, holds its lock.
LOG = "notices of desks"
MAX_AT_ONCE = 100


class Told:
    """What was told of some bots' refusals."""

    def __init__(self, bot_ids: Collection[str | None]) -> None:
        self._bots = Automation.objects.in_bulk([bot_id for bot_id in bot_ids if bot_id])
        self._rows = RefusalTold.objects.in_bulk(list(self._bots))

    def tell(self, event: Event, user: User) -> Notice | None:
        """The notice of a refusal, or None: then it is counted for the next summary."""
        bot = self._bots.get(event.bot_id or "")
        if bot is None:
            return None
        row = self._rows.get(bot.pk)
        if row is None or (not row.count and row.told_at <= event.at - SUMMARY):
            self._rows[bot.pk] = RefusalTold(bot=bot, told_at=event.at)
            return refusal_notice(event, user, bot.name)
        row.count += 1
        row.due_at = row.told_at + SUMMARY
        return None

    def save(self) -> None:
        for row in self._rows.values():
            row.save()


def summarise(now: datetime) -> None:
    """Writes the summaries that are due."""
    due = RefusalTold.objects.filter(due_at__lte=now)
    if not due.exists():
        return
    with bookmarked(LOG) as mark:
        rows = list(due.select_related("bot__desk__user")[:MAX_AT_ONCE]) if mark else []
        notices = []
        for row in rows:
            bot = row.bot
            notices.append(refusals_notice(bot.desk.user, bot.pk, bot.name, row.count, now))
            row.told_at, row.count, row.due_at = now, 0, None
            row.save()
        Notice.objects.bulk_create(wanted(notices))

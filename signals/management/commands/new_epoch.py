"""manage.py new_epoch: invalidates the readers' cursors, after a restore that lost events.

A reader's cursor may be from before the loss, so it is refused. What the restored database itself
follows the log with is as old as the log: bookmarks and webhooks go on in the new epoch.
"""

from django.db import connection
from django.db.models import F, Value
from django.db.models.functions import Least

from desks.models import Bookmark
from events import log
from events.actors import SYSTEM
from events.columns import new_epoch
from events.feed import read_head
from events.management.base_command import LogCommand
from events.models import Head
from events.statements import without_timeouts
from signals.notices.triggers import RESTORED
from signals.webhooks.models import Subscription


class Command(LogCommand):
    help = (
        "Starts a new epoch of the log. Run it after a restore that lost events, before anything "
        "is written. Cursors that readers hold may point to events that no longer exist: they are "
        "refused with cursor_lost, and their readers start again. Webhooks and notices go on at "
        "their own position, or at the end of the log if that is beyond it. Owners of webhooks "
        "get one notice that events may repeat or be missing; of the platform's, staff get it. "
        "Signals are written again if the log was halted, because events were found to be lost. "
        "Nothing else changes. It is one transaction, and running it again does no harm."
    )

    def handle(self, *args: object, **options: object) -> None:
        # There may be many webhooks.
        with without_timeouts(connection), log.turn(actor=SYSTEM, although_halted=True) as turn:
            old, new, last = read_head().epoch, new_epoch(), turn.position - 1
            Head.objects.update(epoch=new, halted=False)
            # ``epoch`` of other bookmarks is empty: their position is none of the log.
            Bookmark.objects.filter(epoch=old).update(
                epoch=new, position=Least(F("position"), Value(last))
            )
            webhooks = Subscription.objects.filter(cursor_epoch=old)
            # Runners lock several rows in this order, too.
            list(webhooks.select_for_update().order_by("pk").values_list("pk"))
            beyond = webhooks.filter(cursor_position__gt=last).count()
            count = webhooks.update(
                cursor_epoch=new,
                cursor_position=Least(F("cursor_position"), Value(last)),
                resends=None,
                # A session in flight saves nothing more.
                lease_generation=F("lease_generation") + 1,
            )
            if count:
                begins = {"position": 0, "at": turn.at}
                Bookmark.objects.update_or_create(name=RESTORED, defaults=begins)
        self.stdout.write(
            f"Epoch {new} starts at position {last:,}. "
            "Earlier cursors are refused with cursor_lost.\n"
            f"Webhooks that go on at their own position: {count:,}; "
            f"of these from the end of the log: {beyond:,}. Their owners get a notice."
        )

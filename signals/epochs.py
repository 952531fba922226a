"""A new epoch of the log, after a restore that lost events.

A reader's cursor may be from before the loss, so it is refused. What the restored database itself
follows the log with is as old as the log: bookmarks and webhooks go on in the new epoch.
"""

from typing import NamedTuple

from django.db import connection
from django.db.models import F, Value
from django.db.models.functions import Least

from desks.models import Bookmark
from events import log
from events.actors import SYSTEM
from events.columns import new_epoch
from events.feed import read_head
from events.models import Head
from signals.notices.writers import RESTORED
from signals.webhooks.models import Subscription


class Begun(NamedTuple):
    """The new epoch, the last position, and how many webhooks go on.

    ``beyond`` of them were beyond the end of the log.
    """

    epoch: str
    position: int
    webhooks: int
    beyond: int


def begin_epoch() -> Begun:
    """Starts a new epoch, and takes what follows the log over to it. All of it, or nothing.

    What followed an earlier epoch had lost its place before, and stays lost.
    """
    with log.turn(actor=SYSTEM) as turn:
        _take_your_time()
        old, new, last = read_head().epoch, new_epoch(), turn.position - 1
        Head.objects.update(epoch=new)
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
            lease_generation=F("lease_generation") + 1,  # a session in flight saves nothing more
        )
        if count:
            told = {"position": 0, "at": turn.at}
            Bookmark.objects.update_or_create(name=RESTORED, defaults=told)
    return Begun(new, last, count, beyond)


def _take_your_time() -> None:
    """Lifts the timeouts of requests in this transaction: there may be many webhooks."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0")

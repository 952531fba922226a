"""Notices about webhooks that no event of a desk tells.

These are the platform's webhooks, those with a lost key, and all of them after a restore that lost
events. A URL or a secret whose key is not configured any more cannot be decrypted, so nothing can
be sent. That may be a mistake of a minute, so it is told once it has lasted.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from desks.models import Bookmark, Desk, Notice, User
from desks.models.notice_kinds import NoticeKind
from desks.notices.outbox import bookmarked, is_full, wanted
from events.control.links import row_url
from events.feed.head import read_head
from events.models import Event
from signals.notices.texts import disabled_because, new_notice, page, webhook_to
from signals.webhooks.models import Subscription

TOLD_AFTER = timedelta(hours=1)
# The name of a bookmark, which exists until all owners are told. ``at`` is when the epoch began,
# ``position`` the last desk whose owner was told.
RESTORED = "webhooks after a restore"
DESKS_AT_ONCE = 500
ROWS_AT_ONCE = 100
AFTER_RESTORE = (
    "The service was restored from a back-up. Events from after that back-up are lost. From now on "
    "your webhooks go on where they stood in the back-up: they may get events again, with another "
    "webhook-id. Events that they got shortly before may exist no more, and their positions may "
    "belong to other events. Compare what your endpoints stored with the log."
)


def notices_for_staff(event: Event) -> Iterator[Notice]:
    """The notices of a ``subscription.disabled`` of the platform: one for each member of staff."""
    data = event.content["data"]
    row = Subscription.objects.filter(public_id=data["id"]).first()
    subject = f"The platform's {webhook_to(row)} is disabled"
    body = f"{subject}: {disabled_because(data['reason'])}\n\n{_control_page(row)}"
    for user in _staff():
        yield new_notice(user, NoticeKind.OPERATIONS, subject, body, event.at)


def tell_restored(now: datetime) -> bool:
    """Tells the next owners of webhooks that the log was restored. Returns whether there are more.

    Like the notices of a retired card, it waits while many notices are not sent yet.
    """
    if not Bookmark.objects.filter(name=RESTORED).exists() or is_full():
        return False
    page("webhooks")  # loads the routes, which takes longer than a transaction may idle
    with bookmarked(RESTORED, create=False) as mark:
        if mark is None:
            return False
        restored = Subscription.objects.filter(
            created_at__lte=mark.at, cursor_epoch=read_head().epoch
        )
        notices = [] if mark.position else list(_of_restore_for_staff(restored, now))
        of_desk = Exists(restored.filter(desk=OuterRef("pk")))
        desks = Desk.objects.active().filter(of_desk, pk__gt=mark.position).order_by("pk")
        some = list(desks.select_related("user")[:DESKS_AT_ONCE])
        notices += [_of_restore(desk.user, now) for desk in some]
        Notice.objects.bulk_create(wanted(notices))
        if len(some) < DESKS_AT_ONCE:
            mark.delete()
        else:
            mark.position = some[-1].pk
            mark.save(update_fields=["position"])
    return len(some) == DESKS_AT_ONCE


def _of_restore(user: User, now: datetime) -> Notice:
    subject = "Your webhooks may repeat or miss events"
    return new_notice(
        user, NoticeKind.ENDINGS, subject, f"{AFTER_RESTORE}\n\n{page('webhooks')}", now
    )


def _of_restore_for_staff(restored: QuerySet[Subscription], now: datetime) -> Iterator[Notice]:
    """The notices about the platform's webhooks, if it has any."""
    if not restored.filter(desk=None).exists():
        return
    subject = "The platform's webhooks may repeat or miss events"
    body = AFTER_RESTORE.replace("your webhooks", "the platform's webhooks")
    for user in _staff():
        yield new_notice(
            user, NoticeKind.OPERATIONS, subject, f"{body}\n\n{_control_page(None)}", now
        )


def tell_lost_keys(now: datetime) -> bool:
    """Tells, once, of webhooks that could not be decrypted for an hour, and still cannot be.

    Returns whether there may be more.
    """
    with transaction.atomic():
        lost = Subscription.objects.filter(key_lost_at__lte=now - TOLD_AFTER, key_loss_told_at=None)
        free = lost.select_for_update(of=("self",), skip_locked=True).select_related("desk__user")
        rows = [row for row in free.order_by("pk")[:ROWS_AT_ONCE] if row.lacks_key(now)]
        Notice.objects.bulk_create(
            wanted([notice for row in rows for notice in _of_lost_key(row, now)])
        )
        told = Subscription.objects.filter(pk__in=[row.pk for row in rows])
        told.update(key_loss_told_at=now)
    return len(rows) == ROWS_AT_ONCE


def _of_lost_key(row: Subscription, now: datetime) -> Iterator[Notice]:
    subject = f"The webhook to {row.host} needs its URL and a new secret"
    body = (
        f"Nothing is sent to your webhook to {row.host}: the service cannot decrypt its URL or its "
        "secret any more. Enter the URL again, and replace the secret without an overlap. Nothing "
        "is lost: events wait."
    )
    if row.desk is not None:
        link = page("webhook", row.public_id)
        yield new_notice(row.desk.user, NoticeKind.ENDINGS, subject, f"{body}\n\n{link}", now)
        return
    body = body.replace("your webhook", "the platform's webhook")
    for user in _staff():
        link = _control_page(row)
        yield new_notice(user, NoticeKind.OPERATIONS, subject, f"{body}\n\n{link}", now)


def _staff() -> list[User]:
    return list(User.objects.filter(is_staff=True, is_active=True))


def _control_page(row: Subscription | None) -> str:
    """The page of the webhook, or of all if it was removed."""
    return (
        settings.BASE_URL + row_url(row) if row else page("admin:signals_subscription_changelist")
    )

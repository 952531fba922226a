"""Takes the notices that are due for each channel, and sends the mails (chats: ``chats.sending``).

Each channel has its own rows, so one that hangs or fails neither holds up nor repeats another. No
transaction is open while something is sent. A process takes rows for the lease of their channel. If
it ends before it sent them, another one takes them then: a notice is sent at least once, and as a
mail with the same Message-ID.
"""

import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from smtplib import SMTPDataError, SMTPRecipientsRefused

from allauth.account.models import EmailAddress
from django.conf import settings
from django.core import signing
from django.core.mail import EmailMultiAlternatives, get_connection
from django.db import transaction
from django.db.models import Min, QuerySet
from django.db.models.functions import Greatest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from desks.models import Chat, QueuedNotice
from desks.models.notice import LAST, MAIL, NO_MORE, OF_A_DESK, OF_STAFF, NoticeKind
from signals.outbound.schedule import NOTICES, interval, pause_after, spend

RATE = "notices by "  # the name of a rate: then the channel
CHAT_RATE = "25/second"  # of each service
LEASE = timedelta(minutes=2)
MOST_ATTEMPTS = 1 + len(NOTICES.pauses)
BATCH_SIZE = 25  # notices of a channel that a process takes
# A mail server raises these because of an address or a content. Some then close the connection.
OF_ONE_MAIL = (SMTPRecipientsRefused, SMTPDataError)
# The time that a batch spends on a server that fails or hangs (EMAIL_TIMEOUT).
MOST_LOST = timedelta(seconds=15)

LINK = '<a href="{0}">{0}</a>'

logger = logging.getLogger(__name__)


# --- What is sent next ----------------------------------------------------------------------------


def take(channel: str, now: datetime) -> list[QueuedNotice]:
    """Takes the next notices of a channel, as many as its rate allows. The lease begins at ``now``.

    ``due_at`` of a notice becomes the end of its lease. Its chat is leased with it, because a chat
    is sent one notice at a time.
    """
    name, until = f"{RATE}{channel}", now + LEASE
    between = interval(settings.NOTICE_RATE if channel == MAIL else CHAT_RATE)
    # Mails are sent although the table of chats is locked or cannot be read.
    related = ["user"] if channel == MAIL else ["user", "chat"]
    due = QueuedNotice.objects.due(channel, now).select_related(*related)
    with transaction.atomic():
        free = list(due.select_for_update(skip_locked=True, of=("self",))[:BATCH_SIZE])
        if channel != MAIL:
            free = _of_unlocked_chats(free)
        granted, _ = spend([(name,)] * len(free), {name: between})
        taken = free[: len(granted)]
        for notice in taken:
            notice.due_at, notice.attempts = until, max(1, notice.attempts)
        rows = QueuedNotice.objects.filter(pk__in=[notice.pk for notice in taken])
        rows.update(due_at=until, attempts=Greatest("attempts", 1))
        if channel != MAIL:
            chats = [notice.chat_id for notice in taken if notice.chat_id]
            Chat.objects.filter(pk__in=chats).update(leased_until=until)
    return taken


def _of_unlocked_chats(notices: Sequence[QueuedNotice]) -> list[QueuedNotice]:
    """Locks the chats of these notices, and leaves out those whose chat another process has locked.

    It waits for none: whoever has locked a chat may wait for its notices.
    """
    chats = Chat.objects.filter(pk__in=[notice.chat_id for notice in notices if notice.chat])
    free = chats.select_for_update(skip_locked=True, no_key=True)
    locked = set(free.values_list("pk", flat=True))
    return [notice for notice in notices if notice.chat is None or notice.chat_id in locked]


def begin(notice: QueuedNotice) -> bool:
    """Counts an attempt before it is made: what ends the process is tried no more often.

    Gives the notice up and returns False after the last attempt. Also returns False if the row is
    gone, or its lease is another process's by now.
    """
    if notice.attempts > MOST_ATTEMPTS:
        logger.error("A notice was given up: each attempt ended the process.")
        notice.delete()
        return False
    notice.attempts += 1
    return bool(_leased(notice).update(attempts=notice.attempts))


def _leased(notice: QueuedNotice) -> QuerySet[QueuedNotice]:
    """The row of a notice. Empty if it is gone, or its lease is another process's by now."""
    return QueuedNotice.objects.filter(pk=notice.pk, due_at=notice.due_at)


# --- Mails ----------------------------------------------------------------------------------------


def send_mails(now: datetime) -> bool:
    """Sends the next batch of mails. Returns whether there may be more."""
    if not QueuedNotice.objects.due(MAIL, now).exists():
        return False
    taken = take(MAIL, now)
    deliver_mails(taken)
    return bool(taken)


def mail_lag_seconds() -> float:
    """How long the oldest mail that is due has waited, except for those that are sent last."""
    now = timezone.now()
    due = QueuedNotice.objects.due(MAIL, now).filter(priority__lt=LAST)
    oldest: datetime | None = due.order_by().aggregate(Min("due_at"))["due_at__min"]
    return (now - oldest).total_seconds() if oldest else 0.0


def failing_mails() -> int:
    """The number of mails that failed and are tried again."""
    return QueuedNotice.objects.filter(channel=MAIL, attempts__gt=1).count()


def deliver_mails(notices: Sequence[QueuedNotice]) -> None:
    """Sends notices over one connection. What fails is tried again later.

    A mail that fails holds up no other, even if it ends the connection. If none can be opened, or
    too much time is lost, the rest is not tried: it is taken again once its lease has ended. Only
    the type of an error is logged: its text may contain an address.
    """
    connection, lost = get_connection(), timedelta(0)
    for notice in notices:
        address = address_of(notice)
        if address is None:
            notice.delete()
            continue
        if not begin(notice):
            continue
        began, is_open = timezone.now(), False
        try:
            connection.open()
            is_open = True
            connection.send_messages([mail_of(notice, address)])
        except Exception as error:
            again = "later" if retry(notice, timezone.now()) else "no more"
            logger.warning(
                "A notice was not sent: %s (%s). It is tried %s.",
                notice.kind,
                type(error).__name__,
                again,
            )
            with suppress(OSError):  # smtplib's errors, too
                connection.close()
            if not isinstance(error, OF_ONE_MAIL):
                lost += timezone.now() - began
            if not is_open or lost > MOST_LOST:
                break
        else:
            notice.delete()
    connection.close()


def address_of(notice: QueuedNotice) -> str | None:
    """Where a mail goes: None if its reader is gone or has no verified address."""
    if notice.address:
        return notice.address
    user = notice.user
    if user.closed_at is not None or not user.is_active:
        return None
    verified = EmailAddress.objects.filter(user=user, email=user.email, verified=True)
    return user.email if notice.kind == NoticeKind.SECURITY or verified.exists() else None


def retry(notice: QueuedNotice, now: datetime) -> bool:
    """Tries a mail again later. Gives it up and returns False after the last attempt.

    Changes nothing if the lease is another process's by now.
    """
    own = _leased(notice)
    if notice.attempts > MOST_ATTEMPTS:
        own.delete()
        return False
    own.update(due_at=now + pause_after(notice.attempts - 1, NOTICES))
    return True


def mail_of(notice: QueuedNotice, address: str) -> EmailMultiAlternatives:
    """The mail of a notice: plain text, and the same in HTML."""
    stop = stop_link(notice)
    context = {
        "subject": notice.subject,
        "body": notice.body,
        "linked": _with_links(notice.body),
        "stop": stop,
        "is_security": notice.kind == NoticeKind.SECURITY,
    }
    host = settings.DEFAULT_FROM_EMAIL.rpartition("@")[2].strip("> ")
    headers = {"Message-ID": f"<{notice.public_id}@{host}>", "Auto-Submitted": "auto-generated"}
    if stop:
        headers["List-Unsubscribe"] = f"<{stop}>"
        headers["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    text = render_to_string("notices/mail.txt", context)
    message = EmailMultiAlternatives(notice.subject, text, to=[address], headers=headers)
    message.attach_alternative(render_to_string("notices/mail.html", context), "text/html")
    return message


def _with_links(body: str) -> SafeString:
    """The text as HTML, with links to our own pages. Names, hosts and browsers are not linked.

    What they say is chosen by others: a link of theirs in our mail would be believed.
    """
    parts = re.split(rf"({re.escape(settings.BASE_URL)}/\S*)", body)
    shown = (format_html(LINK, part) if index % 2 else part for index, part in enumerate(parts))
    return format_html_join("", "{}", ((part,) for part in shown))


# --- Links that turn a kind of notice off without signing in (RFC 8058) ---------------------------

SALT = "signals.notices.unsubscribing"
CAN_BE_OFF = {**OF_A_DESK, **OF_STAFF, **NO_MORE}


def stop_link(notice: QueuedNotice) -> str:
    """The link that turns the notice's kind off for its reader; empty if it cannot be off."""
    if notice.kind not in CAN_BE_OFF:
        return ""
    token = _Undated(salt=SALT).sign_object([notice.user_id, notice.kind])
    return settings.BASE_URL + reverse("stop-notices", args=[token])


class _Undated(signing.TimestampSigner):
    """Signs what ``signing.loads`` reads, without a time: a mail that is repeated is the same."""

    def timestamp(self) -> str:
        return "0"


def read_stop_link(token: str) -> tuple[int, NoticeKind] | None:
    """The user and the kind of a link; None if it is not ours. It does not expire.

    Nor is one whose kind only a later release knows.
    """
    try:
        user_id, kind = signing.loads(token, salt=SALT)
    except signing.BadSignature:
        return None
    return (user_id, NoticeKind(kind)) if kind in CAN_BE_OFF else None

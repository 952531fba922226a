"""Sends the notices that are due as mails, and reads the links in them."""

import logging
from collections.abc import Sequence
from datetime import datetime
from smtplib import SMTPDataError, SMTPRecipientsRefused

from django.conf import settings
from django.core import signing
from django.core.mail import EmailMultiAlternatives, get_connection
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

from desks.models import Notice
from desks.models.notice_kinds import NO_MORE, OF_A_DESK, OF_STAFF, NoticeKind
from desks.notices.outbox import address_of, end_mail, postpone, take
from signals.notices.chats.models import Chat

logger = logging.getLogger(__name__)

# A mail server raises these because of an address or a content. Then the connection goes on.
OF_ONE_MAIL = (SMTPRecipientsRefused, SMTPDataError)


def send_due(now: datetime) -> int:
    """Takes and sends the next notices. Returns how many were taken."""
    notices = take(now)
    if notices:
        deliver(notices)
    return len(notices)


def deliver(notices: Sequence[Notice]) -> None:
    """Sends notices over one connection. What fails is tried again later.

    Once the connection fails, the rest of the batch waits too. A mail server that refuses one mail
    does not hold up the others. Only the type of an error is logged: its text may contain an
    address.
    """
    connection, failed = get_connection(), False
    for notice in notices:
        address = address_of(notice)
        if address is None:
            _end(notice)
            continue
        try:
            if failed:
                raise ConnectionError
            connection.open()
            connection.send_messages([mail_of(notice, address)])
        except Exception as error:
            failed = failed or _is_of_connection(error)
            kept = postpone(notice, timezone.now())
            if not kept:
                _end(notice)
            outcome = "later" if kept else "no more"
            logger.warning(
                "A notice was not sent: %s (%s). It is tried %s.",
                notice.kind,
                type(error).__name__,
                outcome,
            )
        else:
            _end(notice)
    connection.close()


def _end(notice: Notice) -> None:
    has_chats = Chat.objects.filter(user=notice.user_id).exists()
    end_mail(notice, timezone.now(), has_chats=has_chats)


def _is_of_connection(error: Exception) -> bool:
    """Whether the next mail would fail too. smtplib's errors are ``OSError`` without exception."""
    return isinstance(error, OSError) and not isinstance(error, OF_ONE_MAIL)


def mail_of(notice: Notice, address: str) -> EmailMultiAlternatives:
    """The mail of a notice: plain text, and the same in HTML."""
    stop = stop_link(notice)
    context = {
        "subject": notice.subject,
        "body": notice.body,
        "stop": stop,
        "base": settings.BASE_URL,
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


# --- Links that turn a kind of notice off without signing in (RFC 8058) ---------------------------

SALT = "signals.notices.unsubscribing"
CAN_BE_OFF = {**OF_A_DESK, **OF_STAFF, **NO_MORE}


def stop_link(notice: Notice) -> str:
    """The link that turns the notice's kind off for its reader; empty if it cannot be off."""
    if notice.kind not in CAN_BE_OFF:
        return ""
    token = signing.dumps([notice.user_id, notice.kind], salt=SALT)
    return settings.BASE_URL + reverse("stop-notices", args=[token])


def read_stop_link(token: str) -> tuple[int, NoticeKind] | None:
    """The user and the kind of a link; None if it is not ours. It does not expire."""
    try:
        user_id, kind = signing.loads(token, salt=SALT)
    except signing.BadSignature:
        return None
    return user_id, NoticeKind(kind)

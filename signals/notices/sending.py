"""Sends the notices that are due: as mails, and to chats.

Each channel has its own rows, so one that hangs or fails neither holds up nor repeats another. No
transaction is open while something is sent. A process takes rows for the lease of their channel. If
it ends before it sent them, another one takes them then: a notice is sent at least once, and as a
mail with the same Message-ID.
"""

import asyncio
import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from http import HTTPStatus
from smtplib import SMTPDataError, SMTPRecipientsRefused

from allauth.account.models import EmailAddress
from django.conf import settings
from django.core import signing
from django.core.mail import EmailMultiAlternatives, get_connection
from django.db import DatabaseError, InterfaceError, transaction
from django.db.models import Min, QuerySet
from django.db.models.functions import Greatest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from desks.models import Chat, QueuedNotice
from desks.models.chat import Problem, Service
from desks.models.notice import LAST, MAIL, NO_MORE, OF_A_DESK, OF_STAFF, NoticeKind
from desks.notices.outbox import write
from signals.notices.chats import services
from signals.notices.texts import new_notice, page_url
from signals.outbound.answers import Answer, Fault
from signals.outbound.database import in_database
from signals.outbound.guarded_client import Client
from signals.outbound.schedule import NOTICES, asked_pause, interval, pause_after, spend
from tokens.crypto.keys import KeyLostError
from tokens.models.secret import decrypt

TICK = 1.0  # seconds between two looks
RATE = "notices by "  # the name of a rate: then the channel
CHAT_RATE = "25/second"  # of each service
LEASE = timedelta(minutes=2)
MOST_ATTEMPTS = 1 + len(NOTICES.pauses)
BATCH_SIZE = 25  # notices of a channel that a process takes
MOST_CHATS = 100  # in flight
PAUSE = timedelta(seconds=1)  # between two messages to one chat
CLOSED = (401, 403, 404, 410)  # the chat is gone, or closed to us
# With 401 and 404, Telegram speaks of the operator's bot, not of the chat.
CLOSED_AT = {Service.TELEGRAM: (403,)}
NOT_TAKEN = (400, 413, 422)  # this message, not the next one
HEADERS = {"Content-Type": "application/json"}
# A mail server raises these because of an address or a content. Then the connection goes on.
OF_ONE_MAIL = (SMTPRecipientsRefused, SMTPDataError)

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
    related = ["user"] if channel == MAIL else ["user", "chat"]
    due = QueuedNotice.objects.due(channel, now).select_related(*related)
    with transaction.atomic():
        free = list(due.select_for_update(skip_locked=True, of=("self",))[:BATCH_SIZE])
        granted, _ = spend([(name,)] * len(free), {name: between}, now)
        taken = free[: len(granted)]
        for notice in taken:
            notice.due_at, notice.attempts = until, max(1, notice.attempts)
        rows = QueuedNotice.objects.filter(pk__in=[notice.pk for notice in taken])
        rows.update(due_at=until, attempts=Greatest("attempts", 1))
        if channel != MAIL:
            chats = [notice.chat_id for notice in taken if notice.chat_id]
            Chat.objects.filter(pk__in=chats).update(leased_until=until)
    return taken


def take_for_chats(now: datetime) -> list[QueuedNotice]:
    """The next notice of each chat that can be sent one, as many as their services may be sent."""
    services_due = QueuedNotice.objects.ready(now).exclude(channel=MAIL).order_by("channel")
    return [
        notice
        for service in services_due.values_list("channel", flat=True).distinct()
        for notice in take(service, now)
    ]


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

    Once the connection fails, the rest of the batch waits too. A mail server that refuses one mail
    does not hold up the others. Only the type of an error is logged: its text may contain an
    address.
    """
    connection, failed = get_connection(), False
    for notice in notices:
        address = address_of(notice)
        if address is None:
            notice.delete()
            continue
        if not begin(notice):
            continue
        try:
            if failed:
                raise ConnectionError
            connection.open()
            connection.send_messages([mail_of(notice, address)])
        except Exception as error:
            failed = failed or _is_of_connection(error)
            again = "later" if retry(notice, timezone.now()) else "no more"
            logger.warning(
                "A notice was not sent: %s (%s). It is tried %s.",
                notice.kind,
                type(error).__name__,
                again,
            )
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


def retry(notice: QueuedNotice, now: datetime) -> bool:
    """Tries a mail again later. Gives it up and returns False after the last attempt.

    Changes nothing if the lease is another process's by now.
    """
    own = _leased(notice)
    if notice.attempts > MOST_ATTEMPTS:
        own.delete()
        return False
    own.update(due_at=now + NOTICES.pauses[notice.attempts - 2])
    return True


def _leased(notice: QueuedNotice) -> QuerySet[QueuedNotice]:
    """The row of a notice. None if it is gone, or its lease is another process's by now."""
    return QueuedNotice.objects.filter(pk=notice.pk, due_at=notice.due_at)


def _is_of_connection(error: Exception) -> bool:
    """Whether the next mail would fail too. smtplib's errors are ``OSError`` without exception."""
    return isinstance(error, OSError) and not isinstance(error, OF_ONE_MAIL)


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
    """The user and the kind of a link; None if it is not ours. It does not expire."""
    try:
        user_id, kind = signing.loads(token, salt=SALT)
    except signing.BadSignature:
        return None
    return user_id, NoticeKind(kind)


# --- Chats ----------------------------------------------------------------------------------------


async def send_to_chats(stop: asyncio.Event) -> None:
    """Sends to chats until ``stop`` is set, side by side: one that hangs holds up nobody else.

    After ``stop`` it lets what is in flight end.
    """
    client, tasks = Client(), set[asyncio.Task[None]]()
    try:
        while not stop.is_set():
            is_full = len(tasks) >= MOST_CHATS
            taken = [] if is_full else await in_database(take_for_chats, timezone.now())
            for notice in taken:
                task = asyncio.create_task(_deliver_to_chat(client, notice))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), TICK / 10 if taken or is_full else TICK)
    finally:
        await asyncio.gather(*tasks)


async def _deliver_to_chat(client: Client, notice: QueuedNotice) -> None:
    """Sends a notice to its chat, and records what became of it."""
    try:
        if not await in_database(begin, notice):
            return
        answer = await send_to_chat(client, notice)
        await in_database(finish, notice, answer, timezone.now())
    except (DatabaseError, InterfaceError) as error:  # the lease ends, and it is sent again
        logger.warning("What became of a notice was not recorded: %s", type(error).__name__)


async def send_to_chat(client: Client, notice: QueuedNotice) -> Answer:
    """Sends a notice to its chat. Never raises for what the other side does."""
    chat = notice.chat
    if chat is None or not notice.user.is_active:
        return Answer(error=Fault.FORBIDDEN)
    if not services.is_offered(chat.service, chat.host):
        return Answer(error=Fault.FORBIDDEN)
    try:
        url = decrypt(chat)
    except KeyLostError:
        return Answer(error=Fault.FORBIDDEN)
    request = services.request_of(chat.service, url, notice.subject, notice.body)
    answer = await client.send(request.url, request.body, HEADERS)
    if chat.service == Service.TELEGRAM and answer.retry_after is None:
        return replace(answer, retry_after=services.read_pause(answer.start))
    return answer


def finish(notice: QueuedNotice, answer: Answer, now: datetime) -> None:
    """Records what became of a notice, unless the lease was lost."""
    with transaction.atomic():
        rows = Chat.objects.select_for_update(of=("self",), no_key=True).select_related("user")
        chat = rows.filter(pk=notice.chat.pk).first() if notice.chat else None
        if chat is None:  # it was removed meanwhile
            notice.delete()
        elif not chat.user.is_active:
            chat.queued_notices.all().delete()
        elif chat.leased_until == notice.due_at:
            chat.leased_until = None
            if answer.is_success:
                _sent(chat, notice, now)
            else:
                _failed(chat, notice, answer, now)
            chat.save()


def _sent(chat: Chat, notice: QueuedNotice, now: datetime) -> None:
    notice.delete()
    chat.problem, chat.failures, chat.failing_since = "", 0, None
    chat.last_sent_at, chat.last_status, chat.last_error = now, None, ""
    chat.next_attempt_at = now + PAUSE


def _failed(chat: Chat, notice: QueuedNotice, answer: Answer, now: datetime) -> None:
    chat.failures += 1
    chat.failing_since = chat.failing_since or now
    chat.last_status, chat.last_error = answer.status, answer.error or ""
    chat.next_attempt_at = now + _pause_after(chat.failures, answer)
    # It is due, and not after the lease. A chat ends by the time of its failures.
    chat.queued_notices.filter(pk=notice.pk).update(due_at=now, attempts=1)
    logger.warning(
        "A notice was not sent to a chat: %s (%s).", chat.service, answer.status or answer.error
    )
    if answer.status in NOT_TAKEN:
        notice.delete()
    if answer.status in CLOSED_AT.get(Service(chat.service), CLOSED):
        _turn_off(chat, Problem.REFUSED, now)
    elif chat.problem or now - chat.failing_since >= NOTICES.give_up_after:
        _turn_off(chat, Problem(chat.problem or Problem.FAILED), now)


def _pause_after(failures: int, answer: Answer) -> timedelta:
    """How long to wait. A service that limits its rate says how long, which may be short."""
    asked = answer.retry_after
    if answer.status == HTTPStatus.TOO_MANY_REQUESTS and asked:
        return asked_pause(asked)
    return pause_after(failures, NOTICES, asked)


def _turn_off(chat: Chat, problem: Problem, now: datetime) -> None:
    """Sends no more notices to the chat, and notifies its owner. What waits is mailed anyway."""
    chat.queued_notices.all().delete()
    chat.next_attempt_at = None
    was_on = not chat.problem
    chat.problem = problem
    chat.save()  # before the notice is written: it does not go to this chat
    if was_on:
        body = (
            f"{chat.label} gets no more notices. {outcome_of(chat)} They still come by mail.\n\n"
            "If you have repaired it, send a test from the page of your notices: a test that "
            "arrives turns the chat on again. If not, remove it, and add it anew.\n\n"
            f"{page_url('notices')}"
        )
        subject = "A chat gets no more notices"
        write([new_notice(chat.user, NoticeKind.ENDINGS, subject, body, now)])


def outcome_of(chat: Chat) -> str:
    """What became of the last attempt, if that failed."""
    if chat.last_status:
        return f"It answered {chat.last_status}."
    return Fault(chat.last_error).label if chat.last_error else ""

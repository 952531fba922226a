"""Sends notices to chats, and turns a chat off that takes none any more."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from http import HTTPStatus

from django.db import DatabaseError, InterfaceError, transaction
from django.utils import timezone

from desks.models import Chat, QueuedNotice
from desks.models.chat import Problem, Service
from desks.models.notice import MAIL, NoticeKind
from desks.notices.outbox import write
from signals.notices.chats import services
from signals.notices.sending import begin, take
from signals.notices.texts import new_notice, page_url
from signals.outbound.answers import Answer, Fault
from signals.outbound.database import in_database
from signals.outbound.guarded_client import Client
from signals.outbound.schedule import NOTICES, asked_pause, pause_after
from tokens.crypto.keys import KeyLostError
from tokens.models.secret import decrypt

TICK = 1.0  # seconds between two looks
MOST_CHATS = 100  # in flight
PAUSE = timedelta(seconds=1)  # between two messages to one chat
CLOSED = (401, 403, 404, 410)  # the chat is gone, or closed to us
# With 401 and 404, Telegram speaks of the operator's bot, not of the chat.
CLOSED_AT: Mapping[str, tuple[int, ...]] = {Service.TELEGRAM: (403,)}
# Of ``Fault.FORBIDDEN``, which ``send_to_chat`` records for each of these causes.
NOT_SENT = "Nothing was sent: we did not send to this host, or could not decrypt the address."
NOT_TAKEN = (400, 413, 422)  # this message, not the next one

logger = logging.getLogger(__name__)


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


def take_for_chats(now: datetime) -> list[QueuedNotice]:
    """The next notice of each chat that can be sent one, as many as their services may be sent."""
    services_due = QueuedNotice.objects.ready(now).exclude(channel=MAIL).order_by("channel")
    return [
        notice
        for service in services_due.values_list("channel", flat=True).distinct()
        for notice in take(service, now)
    ]


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
    url = _address_of(chat) if chat and notice.user.is_active else None
    if chat is None or url is None:
        return Answer(error=Fault.FORBIDDEN)
    request = services.request_of(chat.service, url, notice.subject, notice.body)
    answer = await client.send(request.url, request.body)
    if chat.service == Service.TELEGRAM and answer.retry_after is None:
        return replace(answer, retry_after=services.read_pause(answer.start))
    return answer


def _address_of(chat: Chat) -> str | None:
    """Where messages go. None if its service is not offered any more, or if its key is lost."""
    try:
        return decrypt(chat) if services.is_offered(chat.service, chat.host) else None
    except KeyLostError:
        return None


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
    if answer.status in CLOSED_AT.get(chat.service, CLOSED):
        _turn_off(chat, Problem.REFUSED, now)
    elif chat.problem or now - chat.failing_since >= NOTICES.give_up_after:
        _turn_off(chat, Problem(chat.problem or Problem.FAILED), now)


def _pause_after(failures: int, answer: Answer) -> timedelta:
    """How long to wait. A service that limits its rate says how long, which may be short."""
    asked = asked_pause(answer.retry_after)
    if answer.status == HTTPStatus.TOO_MANY_REQUESTS and asked:
        return asked
    return max(asked, pause_after(failures, NOTICES))


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
    if chat.last_error == Fault.FORBIDDEN:
        return NOT_SENT
    return Fault(chat.last_error).label if chat.last_error in Fault.values else ""

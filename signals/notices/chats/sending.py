"""Copies notices to the chats of their readers, and sends them there.

A chat has its own copies, so one that fails neither holds up nor repeats a mail or another chat.
A process leases a chat, sends it one message without a transaction open, and then records what
became of it. If it ends in between, the message is sent again: at least once. Chats are sent to
side by side: one that hangs holds up nobody else.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import DatabaseError, InterfaceError, connection, transaction
from django.utils import timezone

from desks.models import Notice, User
from desks.models.notice_kinds import NoticeKind
from desks.notices.outbox import WAITS, bookmarked, wanted
from desks.notices.pace import allowed
from signals.notices.chats import services
from signals.notices.chats.models import Chat, ChatMessage, Problem, Service
from signals.notices.texts import new_notice, page
from signals.outbound.answers import Answer, Fault
from signals.outbound.database import in_database
from signals.outbound.transport import Client
from tokens.crypto.keys import KeyLostError

LEASE = timedelta(minutes=1)
PACE = "the pace of chats at "  # the name of a bookmark: then the service
INTERVAL = timedelta(seconds=1) / 25  # between two messages to one service
PAUSE = timedelta(seconds=1)  # between two messages to one chat
MAX_BATCH = 25
LONGEST_PAUSE = timedelta(days=1)  # for a service that asks for more
GIVE_UP_AFTER = timedelta(days=3)  # of failures only
CLOSED = (401, 403, 404, 410)  # the chat is gone, or closed to us
# With 401 and 404, Telegram speaks of the operator's bot, not of the chat.
CLOSED_AT = {Service.TELEGRAM: (403,)}
NOT_TAKEN = (400, 413, 422)  # this message, not the next one
TOO_MANY_REQUESTS = 429
HEADERS = {"Content-Type": "application/json"}

logger = logging.getLogger(__name__)


class Leased(NamedTuple):
    """A chat that this process leased until ``until``, and the message to send to it."""

    chat: Chat
    message: ChatMessage | None
    until: datetime


def take(now: datetime) -> list[Leased]:
    """Leases the chats to which a message is due, as many as the pace of their services allows."""
    services = Chat.objects.due(now).order_by("service").values_list("service", flat=True)
    return [leased for service in services.distinct() for leased in _take_of(service, now)]


def _take_of(service: str, now: datetime) -> Sequence[Leased]:
    with bookmarked(f"{PACE}{service}") as pace:
        if pace is None:
            return []
        count, paced_to = allowed(pace.at, now, INTERVAL, MAX_BATCH)
        due = Chat.objects.due(now).filter(service=service).order_by("next_attempt_at", "pk")
        if connection.features.has_select_for_update_skip_locked:
            due = due.select_for_update(skip_locked=True)
        chats = list(due[:count])
        until = now + LEASE
        Chat.objects.filter(pk__in=[chat.pk for chat in chats]).update(leased_until=until)
        pace.at = paced_to + INTERVAL * len(chats)
        pace.save(update_fields=["at"])
        return [Leased(chat, _next(chat), until) for chat in chats]


def _next(chat: Chat) -> ChatMessage | None:
    """The next message of a chat; none for a user who is gone."""
    return chat.messages.filter(chat__user__is_active=True).first()


async def send(client: Client, leased: Leased) -> Answer:
    """Sends the message. Never raises for what the other side does."""
    chat, message = leased.chat, leased.message
    if message is None or not services.is_offered(chat.service, chat.host):
        return Answer(error=Fault.FORBIDDEN)
    try:
        url = chat.decrypt()
    except KeyLostError:
        return Answer(error=Fault.FORBIDDEN)
    request = services.request_of(chat.service, url, message.subject, message.body)
    answer = await client.send(request.url, request.body, HEADERS)
    if chat.service == Service.TELEGRAM and answer.retry_after is None:
        return replace(answer, retry_after=services.read_pause(answer.start))
    return answer


def finish(leased: Leased, answer: Answer, now: datetime) -> None:
    """Records what became of a message, unless the lease was lost or the chat removed."""
    with transaction.atomic():
        rows = Chat.objects.select_for_update(of=("self",)).select_related("user")
        chat = rows.filter(pk=leased.chat.pk, leased_until=leased.until).first()
        if chat is None:
            return
        if leased.message is None or not chat.user.is_active:
            chat.messages.all().delete()
        elif answer.is_success:
            _sent(chat, leased.message, now)
        else:
            _failed(chat, leased.message, answer, now)
        chat.leased_until = None
        if not chat.messages.exists():
            chat.next_attempt_at = None
        chat.save()


def _sent(chat: Chat, message: ChatMessage, now: datetime) -> None:
    message.delete()
    chat.problem, chat.failures, chat.failing_since = "", 0, None
    chat.last_sent_at, chat.last_status, chat.last_error = now, None, ""
    chat.next_attempt_at = now + PAUSE


def _failed(chat: Chat, message: ChatMessage, answer: Answer, now: datetime) -> None:
    chat.failures += 1
    chat.failing_since = chat.failing_since or now
    chat.last_status, chat.last_error = answer.status, answer.error or ""
    chat.next_attempt_at = now + _pause(chat.failures, answer)
    logger.warning(
        "A notice was not sent to a chat: %s (%s).", chat.service, answer.status or answer.error
    )
    if answer.status in NOT_TAKEN:
        message.delete()
    if answer.status in CLOSED_AT.get(Service(chat.service), CLOSED):
        _turn_off(chat, Problem.REFUSED, now)
    elif chat.problem or now - chat.failing_since >= GIVE_UP_AFTER:
        _turn_off(chat, Problem(chat.problem or Problem.FAILED), now)


def _pause(failures: int, answer: Answer) -> timedelta:
    """How long to wait after this many failures in a row. A service may ask for another pause."""
    asked = min(timedelta(seconds=answer.retry_after or 0), LONGEST_PAUSE)
    if answer.status == TOO_MANY_REQUESTS and asked:
        return asked
    return max(WAITS[min(failures, len(WAITS)) - 1], asked)


def _turn_off(chat: Chat, problem: Problem, now: datetime) -> None:
    """Sends no more notices to the chat, and tells its owner. What waits was mailed anyway."""
    chat.messages.all().delete()
    was_on = not chat.problem
    chat.problem = problem
    if was_on:
        Notice.objects.bulk_create(wanted([_notice(chat, chat.user, now)]))


def _notice(chat: Chat, user: User, now: datetime) -> Notice:
    body = (
        f"{chat.label} gets no more notices. {chat.outcome} They still come by mail.\n\n"
        "If you have repaired it, send a test from the page of your notices: a test that arrives "
        f"turns the chat on again. If not, remove it, and add it anew.\n\n{page('notices')}"
    )
    return new_notice(user, NoticeKind.ENDINGS, "A chat gets no more notices", body, now)


MAX_AT_ONCE = 200
MAX_WAITING = 100  # of a chat; what comes after them is only mailed


def share(now: datetime) -> int:
    """Shares the next notices, each exactly once. Returns how many they were."""
    if not Notice.objects.unshared(now).exists():
        return 0
    with transaction.atomic():
        notices = list(Notice.objects.unshared(now).lock()[:MAX_AT_ONCE])
        _copy([notice for notice in notices if not notice.address], now)
        shared = Notice.objects.filter(pk__in=[notice.pk for notice in notices])
        shared.exclude(mailed_at=None).delete()
        shared.update(is_shared=True)
    return len(notices)


def _copy(notices: Sequence[Notice], now: datetime) -> None:
    """Writes the messages. The lock of a chat keeps its sender from overlooking them."""
    readers = {notice.user_id for notice in notices}
    of_readers = Chat.objects.filter(user__in=readers, user__is_active=True, problem="")
    chats = list(of_readers.select_for_update(of=_LOCKED).order_by("pk"))
    if not chats:
        return
    messages = list(_messages(notices, chats))
    ChatMessage.objects.bulk_create(messages)
    given = {message.chat_id for message in messages}
    Chat.objects.filter(pk__in=given, next_attempt_at=None).update(next_attempt_at=now)


_LOCKED = ("self",)


def _messages(notices: Iterable[Notice], chats: Sequence[Chat]) -> Iterator[ChatMessage]:
    of_user = defaultdict(list)
    for chat in chats:
        of_user[chat.user_id].append(chat)
    waiting = Counter(ChatMessage.objects.filter(chat__in=chats).values_list("chat", flat=True))
    for notice in notices:
        for chat in of_user[notice.user_id]:
            if waiting[chat.pk] < MAX_WAITING:
                waiting[chat.pk] += 1
                yield ChatMessage(
                    chat=chat,
                    kind=notice.kind,
                    priority=notice.priority,
                    subject=notice.subject,
                    body=notice.body,
                )


TICK = 2.0  # seconds between two looks
MOST_AT_ONCE = 100  # messages in flight


async def send_to_chats(stop: asyncio.Event) -> None:
    """Shares and sends until ``stop`` is set; then lets what is in flight end."""
    client, tasks = Client(), set[asyncio.Task[None]]()
    try:
        while not stop.is_set():
            shared = await in_database(share, timezone.now())
            room = len(tasks) < MOST_AT_ONCE
            taken = await in_database(take, timezone.now()) if room else []
            for leased in taken:
                task = asyncio.create_task(deliver(client, leased))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            await _wait(stop, TICK / 20 if shared or taken else TICK)
    finally:
        await asyncio.gather(*tasks)


async def deliver(client: Client, leased: Leased) -> None:
    """Sends one message and records what became of it."""
    answer = await send(client, leased)
    try:
        await in_database(finish, leased, answer, timezone.now())
    except (DatabaseError, InterfaceError) as error:  # the lease ends, and it is sent again
        logger.warning("A chat's answer was not recorded: %s", type(error).__name__)


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)

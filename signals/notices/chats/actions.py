"""Adds, tests and removes the chats of a user. The owner gets a notice of each change.

Chats of Telegram are added by what the operator's bot is sent there. It is read from here, so that
no way in from there is needed.
"""

import asyncio
import json
import logging
import secrets
from contextlib import suppress
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q
from django.dispatch import receiver
from django.utils import timezone

from desks.ids import random_base62
from desks.models import Chat, ChatCode, Desk, User
from desks.models.chat import MAX_CHATS, Service
from desks.models.notice import FIRST, NoticeKind
from desks.notices.outbox import write_security
from events.http.names import require_name
from events.http.refusals import Invalid
from signals.notices.chats import services
from signals.notices.models import TelegramReader
from signals.notices.texts import page
from signals.outbound.addresses import ForbiddenURL
from signals.outbound.database import in_database
from signals.outbound.transport import Client
from tokens.actions import desk_ends
from tokens.crypto.keys import KeyLostError
from tokens.models.secret import decrypt, encrypt

TOO_MANY = f"You have {MAX_CHATS} chats, and can have no more. Remove one first."
NOT_YOU = "If this was not you, change your password, and look at your chats and sessions."
TOO_MANY_REQUESTS = 429
CODE_CHARACTERS = 32  # of a link's 64 at most
CODE_LIFETIME = timedelta(minutes=15)


def add(*, user: User, url: str, name: str = "", now: datetime) -> Chat:
    """Adds a chat. The notice that says so is the first one to be sent there.

    Raises ``Invalid`` if the URL is not one of a chat, or the user has too many.
    """
    require_name(name)
    try:
        service, target = services.read(url.strip())
    except ForbiddenURL as forbidden:
        raise Invalid.field("url", forbidden.code, forbidden.sentence) from None
    chat = Chat(user=user, service=service, name=name, host=target.authority, created_at=now)
    encrypt(chat, target.url)
    _save(chat, target.url, now)
    return chat


def add_telegram(*, code: str, number: int, now: datetime) -> Chat | None:
    """Adds the chat of Telegram in which a code was sent to the bot, and uses the code.

    Returns None if there is no such code, or its user cannot have that chat. Raises nothing: what
    somebody writes to the bot is no error.
    """
    with transaction.atomic():
        codes = ChatCode.objects.select_for_update().filter(digest=services.digest_of_code(code))
        used = codes.filter(expires_at__gt=now, user__is_active=True).first()
        codes.delete()
        if used is None:
            return None
        host = services.bot_name()
        chat = Chat(user=used.user, service=Service.TELEGRAM, host=host, created_at=now)
        encrypt(chat, str(number))
        try:
            _save(chat, str(number), now)
        except Invalid:
            return None
    return chat


def new_code(*, user: User, now: datetime) -> str:
    """A code for ``add_telegram``. It replaces the user's last one."""
    code = random_base62(CODE_CHARACTERS)
    defaults = {"digest": services.digest_of_code(code), "expires_at": now + CODE_LIFETIME}
    ChatCode.objects.update_or_create(user=user, defaults=defaults)
    return code


def _save(chat: Chat, address: str, now: datetime) -> None:
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=chat.user_id)  # one at a time counts
        others = list(Chat.objects.filter(user=chat.user_id))
        if any(_is_at(other, address) for other in others):  # a form may be sent twice
            raise Invalid.field("url", "taken", "You have added this chat already.")
        if len(others) >= MAX_CHATS:
            raise Invalid(TOO_MANY)
        chat.save(force_insert=True)
        _notify(chat, "A chat was added to your notices", "gets your notices from now on", now)


def remove(*, chat: Chat, now: datetime) -> None:
    """Removes a chat, with what waits for it."""
    with transaction.atomic():
        Chat.objects.filter(pk=chat.pk).delete_locked()
        _notify(chat, "A chat was removed from your notices", "gets no more notices", now)


@receiver(desk_ends)
def remove_all(sender: object, desk: Desk, **options: object) -> None:
    """Removes the chats of a desk's owner, in the turn that ends the desk."""
    Chat.objects.filter(user=desk.user_id).delete_locked()
    ChatCode.objects.filter(user=desk.user_id).delete()


def request_test(*, chat: Chat, now: datetime) -> None:
    """Has a test sent to the chat, also if it is off. One waits at most.

    The test does not wait for the end of a pause, unless the service asked for that.
    """
    body = f"You asked for this test. Notices reach this chat.\n\n{page('notices')}"
    with transaction.atomic():
        for row in Chat.objects.select_for_update().filter(pk=chat.pk):
            if not row.queued_notices.filter(kind=NoticeKind.TEST).exists():
                row.queued_notices.create(
                    user_id=row.user_id,
                    channel=row.service,
                    kind=NoticeKind.TEST,
                    priority=FIRST,
                    subject="A test notice",
                    body=body,
                    due_at=now,
                )
            if row.next_attempt_at is None or row.last_status != TOO_MANY_REQUESTS:
                row.next_attempt_at = now
                row.save(update_fields=["next_attempt_at"])


def _is_at(chat: Chat, url: str) -> bool:
    try:
        return decrypt(chat) == url
    except KeyLostError:
        return False


def _notify(chat: Chat, subject: str, fact: str, now: datetime) -> None:
    body = f"{chat.label} {fact}.\n\n{NOT_YOU}\n\n{page('notices')}"
    write_security(chat.user_id, subject, body, at=now)


# --- What the bot of Telegram is sent -------------------------------------------------------------

POLL_LEASE = timedelta(seconds=30)
WAIT = 5  # seconds for news; the client allows 10 in all
LIMIT = 5  # updates at a time: a long message with all that it quotes takes 200 KiB
MOST_BYTES = 1024 * 1024
PAUSE = 15.0  # seconds after a failure, or while another process polls
HEADERS = {"Content-Type": "application/json"}

log = logging.getLogger(__name__)


async def poll_telegram(stop: asyncio.Event) -> None:
    """Reads updates until ``stop`` is set. Without a bot it only waits for that."""
    if not services.has_bot():
        await stop.wait()
        return
    client, holder = Client(), secrets.token_hex(4)
    while not stop.is_set():
        if not await poll_once(client, holder):
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), PAUSE)
    await in_database(release_updates, holder)


async def poll_once(client: Client, holder: str, wait: int = WAIT) -> bool:
    """Reads the next updates. Returns False if another process does, or if it failed."""
    offset = await in_database(lease_updates, holder, timezone.now())
    if offset is None:
        return False
    asked = {"offset": offset, "timeout": wait, "limit": LIMIT, "allowed_updates": ["message"]}
    body = json.dumps(asked).encode()
    answer = await client.send(services.bot_url("getUpdates"), body, HEADERS, keep=MOST_BYTES)
    updates = services.read_updates(answer.start) if answer.is_success else None
    if updates is None:
        log.warning("Telegram's updates were not read (%s).", answer.status or answer.error)
        return False
    await in_database(save_updates, holder, updates, timezone.now())
    return True


def lease_updates(holder: str, now: datetime) -> int | None:
    """Takes or renews the lease. Returns the number of the next update; None if it is another's."""
    TelegramReader.objects.get_or_create(pk=1)
    is_free = Q(holder=holder) | Q(until=None) | Q(until__lte=now)
    if not TelegramReader.objects.filter(is_free).update(holder=holder, until=now + POLL_LEASE):
        return None
    return TelegramReader.objects.get().next_update


def save_updates(holder: str, updates: services.Updates, now: datetime) -> None:
    """Adds the chats whose codes came, and moves on; not if the lease was lost."""
    if updates.last is None:
        return
    with transaction.atomic():
        own = TelegramReader.objects.filter(holder=holder)
        if own.update(next_update=updates.last + 1):
            for started in updates.started:
                add_telegram(code=started.code, number=started.number, now=now)


def release_updates(holder: str) -> None:
    """Lets another process poll at once."""
    TelegramReader.objects.filter(holder=holder).update(until=None)

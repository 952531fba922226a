"""Adds, tests and removes the chats of a user. The owner is told of each change by a notice."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction

from desks.ids import random_base62
from desks.models import User
from desks.models.notice_kinds import FIRST, NoticeKind
from desks.notices.outbox import tell_security
from events.http.names import require_name
from events.http.refusals import Invalid
from signals.notices.chats import telegram
from signals.notices.chats.models import MAX_CHATS, Chat, ChatCode, ChatMessage, Service
from signals.notices.chats.services import read
from signals.notices.texts import page
from signals.outbound.addresses import ForbiddenURL
from tokens.crypto.keys import KeyLostError

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
        service, target = read(url.strip())
    except ForbiddenURL as forbidden:
        raise Invalid.field("url", forbidden.code, forbidden.sentence) from None
    chat = Chat(user=user, service=service, name=name, host=target.authority, created_at=now)
    chat.encrypt(target.url)
    _save(chat, target.url, now)
    return chat


def add_telegram(*, code: str, number: int, now: datetime) -> Chat | None:
    """Adds the chat of Telegram in which a code was sent to the bot, and uses the code.

    Returns None if there is no such code, or its user cannot have that chat. Raises nothing: what
    somebody writes to the bot is no error.
    """
    with transaction.atomic():
        codes = ChatCode.objects.select_for_update().filter(digest=telegram.digest(code))
        used = codes.filter(expires_at__gt=now, user__is_active=True).first()
        codes.delete()
        if used is None:
            return None
        host = telegram.bot_name()
        chat = Chat(user=used.user, service=Service.TELEGRAM, host=host, created_at=now)
        chat.encrypt(str(number))
        try:
            _save(chat, str(number), now)
        except Invalid:
            return None
    return chat


def new_code(*, user: User, now: datetime) -> str:
    """A code for ``add_telegram``. It replaces the user's last one."""
    code = random_base62(CODE_CHARACTERS)
    defaults = {"digest": telegram.digest(code), "expires_at": now + CODE_LIFETIME}
    ChatCode.objects.update_or_create(user=user, defaults=defaults)
    return code


def _save(chat: Chat, address: str, now: datetime) -> None:
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=chat.user_id)  # one at a time counts
        _refuse_too_many(list(Chat.objects.filter(user=chat.user_id)), address)
        chat.save(force_insert=True)
        _tell(chat, "A chat was added to your notices", "gets your notices from now on", now)


def remove(*, chat: Chat, now: datetime) -> None:
    """Removes a chat, with what waits for it."""
    with transaction.atomic():
        Chat.objects.filter(pk=chat.pk).delete_locked()
        _tell(chat, "A chat was removed from your notices", "gets no more notices", now)


def request_test(*, chat: Chat, now: datetime) -> None:
    """Has a test sent to the chat, also if it is off. One waits at most.

    The test does not wait for the end of a pause, unless the service asked for that.
    """
    with transaction.atomic():
        for row in Chat.objects.select_for_update().filter(pk=chat.pk):
            if not row.messages.filter(kind=NoticeKind.TEST).exists():
                _queue_test(row)
            if row.next_attempt_at is None or row.last_status != TOO_MANY_REQUESTS:
                row.next_attempt_at = now
                row.save(update_fields=["next_attempt_at"])


def _refuse_too_many(chats: Sequence[Chat], url: str) -> None:
    """Also refuses a chat that the user has: a form may be sent twice."""
    if any(_is_at(chat, url) for chat in chats):
        raise Invalid.field("url", "taken", "You have added this chat already.")
    if len(chats) >= MAX_CHATS:
        raise Invalid(TOO_MANY)


def _is_at(chat: Chat, url: str) -> bool:
    try:
        return chat.decrypt() == url
    except KeyLostError:
        return False


def _queue_test(chat: Chat) -> None:
    ChatMessage.objects.create(
        chat=chat,
        kind=NoticeKind.TEST,
        priority=FIRST,
        subject="A test notice",
        body=f"You asked for this test. Notices reach this chat.\n\n{page('notices')}",
    )


def _tell(chat: Chat, subject: str, fact: str, now: datetime) -> None:
    body = f"{chat.label} {fact}.\n\n{NOT_YOU}\n\n{page('notices')}"
    tell_security(chat.user_id, subject, body, at=now)

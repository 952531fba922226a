"""Adds, tests and removes the chats of a user. The owner gets a notice of each change."""

from datetime import datetime
from http import HTTPStatus

from django.db import transaction
from django.dispatch import receiver

from desks.actions import DEACTIVATED
from desks.models import Chat, ChatCode, Desk, User
from desks.models.chat import MAX_CHATS
from desks.models.notice import FIRST, NoticeKind
from desks.notices.outbox import write_security
from events.http.name_rules import require_name
from events.http.refusals import FieldCode, Invalid, NotAllowed
from signals.notices.chats import services
from signals.notices.texts import page_url
from signals.outbound.addresses import ForbiddenURL
from tokens.actions import desk_ends
from tokens.crypto.keys import KeyLostError
from tokens.models.secret import decrypt, encrypt

TOO_MANY = f"You have {MAX_CHATS} chats, and can have no more. Remove one first."
NOT_YOU = "If this was not you, change your password, and look at your chats and sessions."


def add(*, user: User, url: str, name: str = "", now: datetime) -> Chat:
    """Adds a chat. The notice that says so is the first one to be sent there.

    Raises ``Invalid`` if the URL is not one of a chat, or the user has too many.
    """
    require_name(name)
    try:
        service, target = services.read(url.strip())
    except ForbiddenURL as forbidden:
        raise Invalid.field("url", forbidden.field_code, forbidden.sentence) from None
    chat = Chat(user=user, service=service, name=name, host=target.authority, created_at=now)
    return save(chat, target.url)


def save(chat: Chat, address: str) -> Chat:
    """Stores a new chat at this address, the URL or Telegram's number, and notifies its owner.

    Raises ``Invalid`` if the user has that chat already, or too many, and ``NotAllowed`` if the
    user was deactivated meanwhile.
    """
    encrypt(chat, address)
    with transaction.atomic():
        owner = User.objects.select_for_update(no_key=True).get(pk=chat.user_id)  # one at a time
        if not owner.is_active:
            raise NotAllowed(DEACTIVATED)
        others = list(Chat.objects.filter(user=chat.user_id))
        if any(_is_at(other, address) for other in others):  # a form may be sent twice
            raise Invalid.field("url", FieldCode.TAKEN, "You have added this chat already.")
        if len(others) >= MAX_CHATS:
            raise Invalid(TOO_MANY)
        chat.save(force_insert=True)
        fact = "gets your notices from now on"
        _notify(chat, "A chat was added to your notices", fact, chat.created_at)
    return chat


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
    body = f"You asked for this test. Notices reach this chat.\n\n{page_url('notices')}"
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
            if row.next_attempt_at is None or row.last_status != HTTPStatus.TOO_MANY_REQUESTS:
                row.next_attempt_at = now
                row.save(update_fields=["next_attempt_at"])


def _is_at(chat: Chat, url: str) -> bool:
    try:
        return decrypt(chat) == url
    except KeyLostError:
        return False


def _notify(chat: Chat, subject: str, fact: str, now: datetime) -> None:
    body = f"{chat.label} {fact}.\n\n{NOT_YOU}\n\n{page_url('notices')}"
    write_security(chat.user_id, subject, body, at=now)

"""What the release before queued is sent: its rows move into the outbox, once."""

from datetime import timedelta

import pytest
from django.utils import timezone

from desks.models import Chat, ChatMessage, Notice, QueuedNotice
from desks.notices.old_rows import move_old_rows
from tests.signals.notices.chats.stage import a_chat

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)


@pytest.fixture
def chat(member) -> Chat:
    return a_chat(member)


def an_old_notice(user, **columns) -> Notice:
    """A notice as the release before writes it."""
    written = {"kind": "silence", "subject": "Silent", "body": "It is.", "due_at": timezone.now()}
    return Notice.objects.create(user=user, **{**written, **columns})


def moved() -> list[str]:
    """The channels of what is in the outbox after the move."""
    while move_old_rows(timezone.now()):
        pass
    return sorted(QueuedNotice.objects.values_list("channel", flat=True))


@pytest.mark.parametrize(
    ("columns", "channels"),
    [
        ({}, ["discord", "mail"]),
        ({"is_shared": True}, ["mail"]),
        ({"mailed_at": timezone.now()}, ["discord"]),
        ({"mailed_at": timezone.now(), "attempts": 1, "due_at": "later"}, ["discord"]),
        ({"address": "old@example.com"}, ["mail"]),
        ({"due_at": "later"}, ["discord", "mail"]),
    ],
)
def test_a_notice_moves_to_the_channels_that_still_wait_for_it(member, chat, columns, channels):
    if columns.get("due_at"):
        columns = {**columns, "due_at": timezone.now() + MINUTE}
    notice = an_old_notice(member, **columns)
    assert moved() == channels
    assert not Notice.objects.exists()
    found = QueuedNotice.objects.values_list("public_id", "subject", "body", "due_at")
    assert set(found) == {(notice.public_id, "Silent", "It is.", notice.due_at)}
    assert moved() == channels


def test_a_notice_that_a_process_is_mailing_moves_when_its_lease_ends(member, chat):
    notice = an_old_notice(member, attempts=1, due_at=timezone.now() + MINUTE)
    assert moved() == []
    Notice.objects.filter(pk=notice.pk).update(due_at=timezone.now())
    assert moved() == ["discord", "mail"]


def test_the_messages_of_a_chat_move_in_their_order_but_not_while_one_is_sent(chat):
    Chat.objects.filter(pk=chat.pk).update(leased_until=timezone.now() + MINUTE)
    for number in range(3):
        ChatMessage.objects.create(chat=chat, kind="silence", subject=str(number), body="")
    assert moved() == []
    Chat.objects.filter(pk=chat.pk).update(leased_until=timezone.now())
    assert moved() == ["discord"] * 3
    assert [row.subject for row in QueuedNotice.objects.order_by("pk")] == ["0", "1", "2"]
    assert not ChatMessage.objects.exists()

"""The notices that wait, and the mails in which they are sent."""

import email
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from email import policy
from email.message import EmailMessage
from pathlib import Path

from django.core import mail
from django.core.mail import EmailMultiAlternatives
from django.db import connection, connections
from django.db.models import Model
from django.utils import timezone

from desks.models import QueuedNotice
from desks.models.notice import MAIL, NoticeKind
from signals.notices.sending import send_mails
from signals.notices.triggers import TRIGGERS


def write() -> None:
    """Writes the notices of everything that happened."""
    while any(trigger(timezone.now()) for trigger in TRIGGERS):
        pass


def waiting(*kinds: NoticeKind) -> list[str]:
    """The subjects of the mails that wait, of these kinds or of all."""
    notices = QueuedNotice.objects.filter(channel=MAIL, **({"kind__in": kinds} if kinds else {}))
    return list(notices.order_by("pk").values_list("subject", flat=True))


def send() -> list[EmailMultiAlternatives]:
    """Sends the mails that are due; returns them."""
    mail.outbox.clear()
    while send_mails(timezone.now()):
        pass
    return mail.outbox  # type: ignore[return-value]


@contextmanager
def table_away(model: type[Model]) -> Iterator[None]:
    """Has each statement on the table of a model fail in this block. The test must commit."""
    name = model._meta.db_table
    with connection.schema_editor() as editor:
        editor.alter_db_table(model, name, "elsewhere")
    try:
        yield
    finally:
        with connection.schema_editor() as editor:
            editor.alter_db_table(model, "elsewhere", name)


@contextmanager
def elsewhere(block: AbstractContextManager[object]) -> Iterator[None]:
    """Runs the block of another thread around this one, on a connection of its own."""
    with ExitStack() as held, ThreadPoolExecutor(1) as other:
        other.submit(held.enter_context, block).result()
        try:
            yield
        finally:
            other.submit(held.close).result()
            other.submit(connections.close_all).result()


def mails_in(folder: Path) -> list[EmailMessage]:
    """The mails that processes wrote to this folder (``filemail:``), by date."""
    parts: list[str] = []
    for path in folder.glob("*.log"):
        parts += path.read_text().split("-" * 79)[:-1]  # what follows is not whole yet
    found = [_mail(part) for part in parts]
    return sorted(found, key=lambda message: message["Date"].datetime)


def _mail(text: str) -> EmailMessage:
    message = email.message_from_string(text.strip(), policy=policy.default)
    assert isinstance(message, EmailMessage)
    return message

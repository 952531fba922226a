"""The notices that wait, and the mails in which they are sent."""

import email
from collections.abc import Iterator
from contextlib import contextmanager
from email import policy
from email.message import EmailMessage
from pathlib import Path

from django.core import mail
from django.core.mail import EmailMultiAlternatives
from django.db import connection
from django.db.models import Model
from django.utils import timezone

from desks.models import Notice
from desks.models.notice_kinds import NoticeKind
from signals.notices import mails
from signals.notices.loops import write_due


def write() -> None:
    """Writes the notices of everything that happened."""
    while write_due(timezone.now()):
        pass


def waiting(*kinds: NoticeKind) -> list[str]:
    """The subjects of the notices that wait, of these kinds or of all."""
    notices = Notice.objects.filter(**({"kind__in": kinds} if kinds else {}))
    return list(notices.order_by("pk").values_list("subject", flat=True))


def send() -> list[EmailMultiAlternatives]:
    """Mails the notices that are due, without the loop of chats; returns the mails."""
    mail.outbox.clear()
    while mails.send_due(timezone.now()):
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

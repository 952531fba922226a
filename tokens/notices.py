"""E-mails that notify a desk's owner of a change to a token or a signing secret.

Each turn at the log sends at most one mail for each desk, after the commit. The mail contains the
credential's hint, never its value. A mail that cannot be sent does not undo the change.
"""

import logging

from django.conf import settings
from django.core.mail import EmailMessage
from django.db import DatabaseError
from django.template.loader import render_to_string

from desks import mails
from desks.models import Desk, User
from events.actors import SYSTEM, ActorType
from events.log import Turn

logger = logging.getLogger(__name__)

KIND = "tokens/email/changed"
PARTS = ("subject", "message")


class Notice:
    """A pending mail to one desk's owner: one sentence for each change in the turn."""

    def __init__(self, desk: Desk, turn: Turn) -> None:
        self.desk, self.at = desk, turn.at
        self.by_staff = turn.actor is not None and turn.actor.type == ActorType.STAFF
        self.sentences: list[str] = []

    def __call__(self) -> None:
        try:
            owner = User.objects.only("email", "closed_at").get(pk=self.desk.user_id)
        except DatabaseError as error:
            logger.error("A mail was not sent: %s (%s).", KIND, type(error).__name__)
            return
        if owner.closed_at is not None:
            return  # a closed account has no address; its closing sends a mail of its own
        context = {
            "sentences": self.sentences,
            "at": self.at,
            "by_staff": self.by_staff,
            "base": settings.BASE_URL,
        }
        subject, body = (render_to_string(f"{KIND}_{part}.txt", context) for part in PARTS)
        mails.send(EmailMessage(subject.strip(), body.strip(), to=[owner.email]), KIND)


def notify_owner(turn: Turn, desk: Desk | None, sentence: str) -> None:
    """Adds a sentence to the mail that the desk's owner gets after this turn.

    No mail is sent for platform credentials, or for demonstration data created by the system.
    """
    if desk is None or turn.actor == SYSTEM:
        return
    for callback in turn.after_commit:
        if isinstance(callback, Notice) and callback.desk == desk:
            callback.sentences.append(sentence)
            return
    notice = Notice(desk, turn)
    notice.sentences.append(sentence)
    turn.after_commit.append(notice)

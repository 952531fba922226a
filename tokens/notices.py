"""Notices to a desk's owner about changes of tokens and signing secrets.

Each turn at the log writes at most one notice for each desk, in its transaction. It contains the
credential's hint, never its value.
"""

from django.conf import settings
from django.template.loader import render_to_string

from desks.models import Desk
from desks.notices.outbox import tell_security
from events.actors import SYSTEM, ActorType
from events.log import Turn

KIND = "tokens/email/changed"
PARTS = ("subject", "message")


class Changes:
    """The changes of one desk's credentials in a turn: one sentence for each."""

    def __init__(self, desk: Desk, turn: Turn) -> None:
        self.desk, self.at = desk, turn.at
        self.by_staff = turn.actor is not None and turn.actor.type == ActorType.STAFF
        self.sentences: list[str] = []

    def __call__(self) -> None:
        context = {
            "sentences": self.sentences,
            "at": self.at,
            "by_staff": self.by_staff,
            "base": settings.BASE_URL,
        }
        subject, body = (render_to_string(f"{KIND}_{part}.txt", context) for part in PARTS)
        tell_security(self.desk.user_id, subject.strip(), body.strip(), at=self.at)


def notify_owner(turn: Turn, desk: Desk | None, sentence: str) -> None:
    """Adds a sentence to the notice that the desk's owner gets of this turn.

    There is none for platform credentials, or for demonstration data created by the system.
    """
    if desk is None or turn.actor == SYSTEM:
        return
    for callback in turn.before_commit:
        if isinstance(callback, Changes) and callback.desk == desk:
            callback.sentences.append(sentence)
            return
    changes = Changes(desk, turn)
    changes.sentences.append(sentence)
    turn.before_commit.append(changes)

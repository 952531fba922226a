"""Notices to a desk's owner about changes of tokens and signing secrets.

Each turn at the log writes at most one notice for each desk, in its transaction. It contains the
credential's hint, never its value.
"""

from django.conf import settings
from django.urls import reverse

from desks.models import Desk
from desks.notices.outbox import write_security
from events.actors import SYSTEM, ActorType
from events.log import Turn
from events.times import in_zone


class Changes:
    """The changes of one desk's credentials in a turn: one sentence for each.

    ``subject`` says the last one: what a user does comes after what it ends.
    """

    def __init__(self, desk: Desk, turn: Turn) -> None:
        self.desk, self.at = desk, turn.at
        self.by_staff = turn.actor is not None and turn.actor.type == ActorType.STAFF
        self.subject = ""
        self.sentences: list[str] = []

    def add(self, sentence: str, subject: str) -> None:
        self.sentences.append(sentence)
        self.subject = subject

    def __call__(self) -> None:
        more = len(self.sentences) - 1
        others = f" ({more} more change{'s' if more > 1 else ''})" if more else ""
        write_security(self.desk.user_id, self.subject + others, self._body(), at=self.at)

    def _body(self) -> str:
        """The text. No template: the log's lock is held, and the first one takes long to load."""
        by_whom = ", done by our staff" if self.by_staff else ""
        changed = "\n".join(f"- {sentence}" for sentence in self.sentences)
        at = in_zone(self.at, self.desk.user.time_zone)
        reset = settings.BASE_URL + reverse("account_reset_password")
        return (
            f"This changed on your desk at {at}{by_whom}:\n\n{changed}\n\n"
            "If you did not do this, sign in and check your desk and your bots. "
            f"If you cannot sign in, reset your password:\n\n{reset}"
        )


def notify_owner(turn: Turn, desk: Desk | None, sentence: str, subject: str) -> None:
    """Adds a sentence to the notice that the desk's owner gets of this turn.

    ``subject`` says the same in a few words. It holds no name that a user chose, which could say
    anything, and no host but in ASCII. There is none for platform credentials, or for demonstration
    data created by the system.
    """
    if desk is None or turn.actor == SYSTEM:
        return
    for callback in turn.before_commit:
        if isinstance(callback, Changes) and callback.desk == desk:
            callback.add(sentence, subject)
            return
    changes = Changes(desk, turn)
    changes.add(sentence, subject)
    turn.before_commit.append(changes)

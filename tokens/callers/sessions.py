"""Sessions as the credentials of streams: which of them have ended.

A session that opened a stream ends with the sign-out, its expiry, another password, and with what
takes the account away: deactivation, closing, or the end of being staff.
"""

import hashlib
from collections.abc import Collection, Iterable

from django.contrib.sessions.models import Session
from django.db.models import BooleanField, CharField, Value
from django.db.models.functions import Cast
from django.http import HttpRequest
from django.utils import timezone

from desks.models import User
from events.live.frames import EndReason
from events.live.streams import Credential
from events.models import Event
from tokens.callers.staff import session_end

SEPARATOR = ":"
# Sessions in one statement. Databases bound the number of parameters, and each session takes two.
BATCH = 10_000


class SessionKind:
    """How the hub learns that a session ended. No event of the log names a session."""

    end_reason, is_recorded = EndReason.SIGNED_OUT, False

    def ended_by(self, event: Event) -> Iterable[str]:
        return ()

    def find_ended(self, ids: Collection[str]) -> Collection[str]:
        """One statement for up to ``BATCH`` sessions."""
        listed = list(ids)
        batches = [listed[start : start + BATCH] for start in range(0, len(listed), BATCH)]
        return [key for batch in batches for key in _find_ended(batch)]


SESSIONS = SessionKind()


def session_credential(request: HttpRequest, user: User) -> Credential:
    """The session of a signed-in user. Its id ends with a digest of what must not change."""
    account = _account(user.password, user.is_staff)
    parts = (request.session.session_key or "", str(user.pk), account)
    return Credential(SESSIONS, SEPARATOR.join(parts), session_end(request, user))


def _find_ended(ids: Collection[str]) -> list[str]:
    asked = {key: key.split(SEPARATOR) for key in ids}
    sessions = Session.objects.filter(
        pk__in={session for session, _, _ in asked.values()}, expire_date__gt=timezone.now()
    ).values_list("pk", Value(""), Value(False, BooleanField()))
    users = User.objects.filter(
        pk__in={user for _, user, _ in asked.values()}, is_active=True
    ).values_list(Cast("pk", CharField()), "password", "is_staff")
    found = {
        (name, _account(password, is_staff)) if password else name
        for name, password, is_staff in sessions.union(users, all=True)
    }
    return [
        key
        for key, (session, user, account) in asked.items()
        if session not in found or (user, account) not in found
    ]


def _account(password: str, is_staff: bool) -> str:
    return hashlib.sha256(f"{password} {is_staff}".encode()).hexdigest()[:32]

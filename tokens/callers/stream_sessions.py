"""Sessions as the credentials of streams: which of them have ended.

A session that opened a stream ends with the sign-out, its expiry, another password, and with what
takes the account away: deactivation, closing, or the end of being staff.
"""

import hashlib
from collections.abc import Collection, Iterable

from django.contrib.sessions.models import Session
from django.http import HttpRequest
from django.utils import timezone

from desks.models import User
from events.live.frames import EndReason
from events.live.streams import Credential
from events.models import Event
from events.statements import listed
from tokens.callers.staff import session_end

SEPARATOR = ":"


class SessionKind:
    """How the hub learns that a session ended. No event of the log names a session."""

    end_reason, is_recorded = EndReason.SIGNED_OUT, False

    def ended_by(self, event: Event) -> Iterable[str]:
        return ()

    def find_ended(self, ids: Collection[str]) -> Collection[str]:
        """Those of these sessions that ended. Two statements."""
        asked = {key: key.split(SEPARATOR) for key in ids}
        names = listed({name for name, _, _ in asked.values()})
        is_open = Session.objects.filter(pk__in=names, expire_date__gt=timezone.now())
        owners = listed({int(user) for _, user, _ in asked.values()}, are_numbers=True)
        users = User.objects.filter(pk__in=owners, is_active=True)
        names_found = set(is_open.values_list("pk", flat=True))
        accounts_found = {
            (str(pk), _account(password, is_staff))
            for pk, password, is_staff in users.values_list("pk", "password", "is_staff")
        }
        return [
            key
            for key, (name, user, account) in asked.items()
            if name not in names_found or (user, account) not in accounts_found
        ]


SESSIONS = SessionKind()


def session_credential(request: HttpRequest, user: User) -> Credential:
    """The session of a signed-in user. Its id ends with a digest of what must not change."""
    account = _account(user.password, user.is_staff)
    parts = (request.session.session_key or "", str(user.pk), account)
    return Credential(SESSIONS, SEPARATOR.join(parts), session_end(request, user))


def _account(password: str, is_staff: bool) -> str:
    return hashlib.sha256(f"{password} {is_staff}".encode()).hexdigest()[:32]

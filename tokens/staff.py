"""What staff need beside being staff: a second factor, and for what matters a fresh sign-in."""

import time
from typing import Any

from allauth.account.authentication import get_authentication_records
from django.conf import settings
from django.http import HttpRequest

from desks.models import User
from events.refusals import NotAllowed, ReauthenticationRequired, SecondFactorRequired


def is_staff(request: HttpRequest) -> bool:
    """Says whether a member of the staff is signed in, with or without a second factor."""
    return isinstance(request.user, User) and request.user.is_active and request.user.is_staff


def has_second_factor(request: HttpRequest) -> bool:
    """Says whether this session was opened with a second factor, or needs none."""
    if not settings.REQUIRE_STAFF_MFA:
        return True
    return any(record.get("method") == "mfa" for record in _records(request))


def signed_in_recently(request: HttpRequest) -> bool:
    """Says whether the session's owner proved who they are within the last quarter of an hour.

    Nobody is asked again where no second factor is asked for.
    """
    if not settings.REQUIRE_STAFF_MFA:
        return True
    earliest = time.time() - settings.ACCOUNT_REAUTHENTICATION_TIMEOUT
    return any(record.get("at", 0) > earliest for record in _records(request))


def require_staff(request: HttpRequest, *, recently: bool) -> None:
    """Raises the refusal that keeps this session from a staff power (contract, section 4)."""
    if not is_staff(request):
        raise NotAllowed("This is for staff.")
    if not has_second_factor(request):
        raise SecondFactorRequired
    if recently and not signed_in_recently(request):
        raise ReauthenticationRequired


def _records(request: HttpRequest) -> list[dict[str, Any]]:
    user = request.user if isinstance(request.user, User) else None
    records: list[dict[str, Any]] = get_authentication_records(request, user)
    return records

"""What a staff session needs (contract, section 4).

It needs a second factor and ends twelve hours after sign-in. Every change needs a sign-in or
re-authentication within the last 15 minutes.
"""

import time
from datetime import UTC, datetime, timedelta

from allauth.account.authentication import (
    AUTHENTICATION_METHODS_SESSION_KEY,
    get_authentication_records,
)
from allauth.account.signals import authentication_step_completed
from allauth.mfa.models import Authenticator
from allauth.mfa.signals import authenticator_added
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.contrib.auth.signals import user_logged_in
from django.dispatch import receiver
from django.http import HttpRequest

from desks.models import User
from events.http.refusals import NotAllowed, ReauthenticationRequired, SecondFactorRequired

MAX_SESSION_AGE = timedelta(hours=12)
SECOND_FACTORS = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)
SIGNED_IN_AT = "signed_in_at"  # session key: the Unix time of the sign-in
FACTOR_ADDED_BY = "second_factor_added_by"  # session key: the user who added the first factor


@receiver(user_logged_in)
def record_sign_in(request: HttpRequest, **kwargs: object) -> None:
    """Stores the time of sign-in in the session. Re-authentication does not change it."""
    request.session[SIGNED_IN_AT] = time.time()


@receiver(authentication_step_completed)
def keep_last_of_each(request: HttpRequest, **kwargs: object) -> None:
    """Keeps the last of equal records of sign-ins: every request reads the session.

    allauth adds one with each re-authentication, and takes the last one for the time of it.
    """
    last: dict[tuple[object, ...], dict[str, object]] = {}
    for record in request.session[AUTHENTICATION_METHODS_SESSION_KEY]:
        what = tuple(sorted((name, value) for name, value in record.items() if name != "at"))
        last.pop(what, None)
        last[what] = record
    request.session[AUTHENTICATION_METHODS_SESSION_KEY] = list(last.values())


@receiver(authenticator_added)
def verify_session(
    request: HttpRequest, user: User, authenticator: Authenticator, **kwargs: object
) -> None:
    """Counts adding the first second factor as signing in with it: the user just proved to have it.

    Another factor does not count. Otherwise a session from before the first factor could add its
    own and pass without the first.
    """
    factors = Authenticator.objects.filter(user=user, type__in=SECOND_FACTORS)
    if list(factors) == [authenticator]:
        request.session[FACTOR_ADDED_BY] = user.pk


def session_end(request: HttpRequest, user: User | AnonymousUser) -> datetime | None:
    """When a staff session is older than ``MAX_SESSION_AGE``. None for customers."""
    if not user.is_staff:
        return None
    signed_in_at = datetime.fromtimestamp(request.session.get(SIGNED_IN_AT, 0), UTC)
    return signed_in_at + MAX_SESSION_AGE


def is_staff(request: HttpRequest) -> bool:
    """Whether a member of staff is signed in, with or without a second factor."""
    return isinstance(request.user, User) and request.user.is_active and request.user.is_staff


def has_second_factor(request: HttpRequest) -> bool:
    """Whether a staff session was opened with a second factor, or does not need one."""
    return not settings.REQUIRE_STAFF_MFA or _used_second_factor(request)


def can_prove_second_factor(request: HttpRequest) -> bool:
    """Whether the user, of staff or not, has a second factor that this session did not use."""
    factors = Authenticator.objects.filter(user=request.user.pk, type__in=SECOND_FACTORS)
    return not _used_second_factor(request) and factors.exists()


def signed_in_recently(request: HttpRequest) -> bool:
    """Whether the user signed in or re-authenticated within the last 15 minutes."""
    proved = [float(record.get("at", 0)) for record in _records(request)]
    latest = max([request.session.get(SIGNED_IN_AT, 0), *proved])
    return bool(latest > time.time() - settings.ACCOUNT_REAUTHENTICATION_TIMEOUT)


def require_staff(request: HttpRequest, *, recently: bool) -> None:
    """Raises the refusal that applies if the session may not act as staff.

    ``recently`` also requires a recent sign-in or re-authentication (contract, section 4).
    """
    if not is_staff(request):
        raise NotAllowed("This is for staff.")
    if not has_second_factor(request):
        raise SecondFactorRequired
    if recently and not signed_in_recently(request):
        raise ReauthenticationRequired


def _used_second_factor(request: HttpRequest) -> bool:
    used = any(record.get("method") == "mfa" for record in _records(request))
    return used or request.session.get(FACTOR_ADDED_BY, 0) == request.user.pk


def _records(request: HttpRequest) -> list[dict[str, str | float]]:
    user = request.user if isinstance(request.user, User) else None
    records: list[dict[str, str | float]] = get_authentication_records(request, user)
    return records

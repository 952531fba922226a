"""Who is signed in. Only requests that pass through ``MIDDLEWARE`` have a session."""

from typing import cast

from django.contrib.auth import get_user
from django.contrib.auth import middleware as auth
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from desks.models import User
from events.http.requests import state_of
from tokens.callers.staff import session_expired


class AuthenticationMiddleware(auth.AuthenticationMiddleware):
    """Django's middleware, except that expired staff sessions are anonymous."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Deactivates the user's time zone at the end: the thread serves others next."""
        try:
            return cast(HttpResponseBase, super().__call__(request))
        finally:
            timezone.deactivate()

    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        request.user = SimpleLazyObject(lambda: _user(request))  # type: ignore[assignment]


def _user(request: HttpRequest) -> User | AnonymousUser:
    """Returns the signed-in user. Ends a staff session that is too old."""
    user: User | AnonymousUser = get_user(request)
    if session_expired(request, user):
        request.session.flush()
        return AnonymousUser()
    state_of(request).user_pk = user.pk
    if isinstance(user, User) and user.time_zone:
        timezone.activate(user.time_zone)
    return user

"""Sessions for pages and for the API paths that accept them.

Other API paths authenticate by token or signature and never look for a session.
"""

from typing import Any

from django.contrib.auth import get_user
from django.contrib.auth import middleware as auth
from django.contrib.auth.models import AnonymousUser
from django.contrib.messages import middleware as messages
from django.contrib.sessions import middleware as sessions
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from config.problems import API
from desks.models import User
from events.http.request_state import state_of
from tokens.callers.staff import session_expired

# The API path that accepts sessions, and the page under /api/.
WITH_SESSION = ("/api/v1/tokens", "/api/docs")


class SkipOtherPaths:
    """Skips requests on paths that do not use sessions."""

    get_response: Any

    def __call__(self, request: HttpRequest) -> Any:
        if request.path.startswith(API) and request.path not in WITH_SESSION:
            return self.get_response(request)
        return super().__call__(request)  # type: ignore[misc]


class SessionMiddleware(SkipOtherPaths, sessions.SessionMiddleware):
    """Django's middleware, on paths that use sessions."""


class AuthenticationMiddleware(SkipOtherPaths, auth.AuthenticationMiddleware):
    """Django's middleware, on paths that use sessions. Expired staff sessions are anonymous."""

    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        request.user = SimpleLazyObject(lambda: _user(request))  # type: ignore[assignment]


class MessageMiddleware(SkipOtherPaths, messages.MessageMiddleware):
    """Django's middleware, on paths that use sessions."""


def _user(request: HttpRequest) -> User | AnonymousUser:
    """Returns the signed-in user. Ends a staff session that is too old."""
    user: User | AnonymousUser = get_user(request)
    if session_expired(request, user):
        request.session.flush()
        return AnonymousUser()
    state_of(request).user_pk = user.pk
    return user

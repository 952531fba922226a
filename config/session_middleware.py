"""Sessions, for those who have one: people on pages, and at the API path that takes them.

Elsewhere under /api/ a token or a signature says who calls: nothing of a session is looked for.
"""

from typing import Any

from django.contrib.auth import middleware as auth
from django.contrib.messages import middleware as messages
from django.contrib.sessions import middleware as sessions
from django.http import HttpRequest

from config.problems import API

# The one path of the API that sessions count at, and the page among them.
WITH_SESSION = ("/api/v1/tokens", "/api/docs")


class OfSessions:
    """Passes by a request that no session counts for."""

    get_response: Any

    def __call__(self, request: HttpRequest) -> Any:
        if request.path.startswith(API) and request.path not in WITH_SESSION:
            return self.get_response(request)
        return super().__call__(request)  # type: ignore[misc]


class SessionMiddleware(OfSessions, sessions.SessionMiddleware):
    """The framework's, where sessions count."""


class AuthenticationMiddleware(OfSessions, auth.AuthenticationMiddleware):
    """The same."""


class MessageMiddleware(OfSessions, messages.MessageMiddleware):
    """The same."""

"""Requests with Django's test client, and their responses.

Paths, credentials and bodies are those of the client that is written from the contract alone.
"""

import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.base import SessionBase
from django.core.signals import request_finished
from django.db import close_old_connections
from django.test import Client

from desks.models import User
from tests.conformance.client import (  # noqa: F401 - tests import them from here
    BOTS,
    CATALOG,
    CHECK,
    DESKS,
    EVENTS,
    HOOK,
    JSON,
    ME,
    SIGNALS,
    SUBSCRIPTIONS,
    TOKENS,
    bearer,
    deploy_path,
    signed,
    written,
)
from tokens.callers.staff import SIGNED_IN_AT

if TYPE_CHECKING:
    # The type of the test client's responses has no public name in django-stubs.
    from django.test.client import _MonkeyPatchedWSGIResponse as Response
else:
    from django.http import HttpResponse as Response

# Shared, because creating a client loads the middleware. Each request clears its cookies first.
_sender = Client(raise_request_exception=False)


def end_stream(response: Response) -> Response:
    """Frees the seat of a response that is a stream, and returns it. Connections stay open."""
    if response.streaming:
        request_finished.disconnect(close_old_connections)
        try:
            response.close()
        finally:
            request_finished.connect(close_old_connections)
    return response


def get(path: str, token: str | None = None, **headers: str) -> Response:
    presented = bearer(token) if token else {}
    _sender.cookies.clear()
    return _sender.get(path, headers={**presented, **headers})


def head(path: str, token: str | None = None, **headers: str) -> Response:
    _sender.cookies.clear()
    return _sender.head(path, headers={**(bearer(token) if token else {}), **headers})


def post(
    path: str,
    body: dict[str, Any] | bytes,
    token: str | None = None,
    *,
    secret: str | None = None,
    content_type: str = JSON,
    headers: dict[str, str] | None = None,
    **environ: Any,
) -> Response:
    """Sends a body. ``token`` adds a Bearer token and ``secret`` signs the body."""
    raw = written(body)
    presented = {**(bearer(token) if token else {}), **(signed(secret, body=raw) if secret else {})}
    _sender.cookies.clear()
    return _sender.generic(
        "POST", path, raw, content_type, headers={**presented, **(headers or {})}, **environ
    )


def push(
    body: dict[str, Any] | bytes,
    token: str | None = None,
    *,
    secret: str | None = None,
    **more: Any,
) -> Response:
    """Posts to the hook."""
    return post(HOOK, body, token, secret=secret, **more)


def signed_in(user: User, *methods: str, at: float | None = None, csrf: bool = False) -> Client:
    """A browser in which this user signed in with these methods: ``password``, ``mfa``.

    ``csrf`` turns on the CSRF checks, which Django's test client turns off.
    """
    browser = Client(enforce_csrf_checks=csrf, raise_request_exception=False)
    moment = time.time() if at is None else at
    session = session_of(user)
    session["account_authentication_methods"] = [{"method": m, "at": moment} for m in methods]
    session["account_authentication_methods_user"] = str(user.pk)
    session[SIGNED_IN_AT] = moment
    keep(browser, session)
    return browser


def session_of(user: User) -> SessionBase:
    """A session in which this user is signed in, which is not saved yet.

    Django's ``force_login`` saves five times until a session has what a test needs.
    """
    session: SessionBase = import_module(settings.SESSION_ENGINE).SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    return session


def keep(browser: Client, session: SessionBase) -> None:
    """Saves the session, which is the browser's from then on."""
    session.save()
    assert session.session_key
    browser.cookies[settings.SESSION_COOKIE_NAME] = session.session_key


def code(response: Response) -> str:
    """The code of a problem, or ``ok`` for a successful response."""
    return "ok" if response.status_code < 300 else str(response.json()["code"])


def faults(response: Response) -> dict[str, str]:
    """The error code of each invalid field."""
    return {error["field"]: error["code"] for error in response.json().get("errors", [])}


def without_id(response: Response) -> tuple[int, dict[str, Any], dict[str, str]]:
    """The status, body and headers without the request id, to compare two responses."""
    body = {name: value for name, value in response.json().items() if name != "requestId"}
    headers = {name: value for name, value in response.items() if name != "X-Request-Id"}
    return response.status_code, body, headers

"""Requests with Django's test client: paths, credentials, bodies and responses."""

import json
import time
from typing import TYPE_CHECKING, Any

from django.core.signals import request_finished
from django.db import close_old_connections
from django.test import Client

from desks.models import User
from tokens.callers.staff import SIGNED_IN_AT
from tokens.crypto import signing

if TYPE_CHECKING:
    # The type of the test client's responses has no public name in django-stubs.
    from django.test.client import _MonkeyPatchedWSGIResponse as Response
else:
    from django.http import HttpResponse as Response

CATALOG = "/api/v1"
ME = "/api/v1/me"
DESKS = "/api/v1/desks"
EVENTS = "/api/v1/events"
TOKENS = "/api/v1/tokens"
HOOK = "/api/hooks/signal"
CHECK = "/api/hooks/check"
SIGNALS = "/api/v1/signals"
BOTS = "/api/v1/bots"
SUBSCRIPTIONS = "/api/v1/subscriptions"

JSON = "application/json"

# Shared, because creating a client loads the middleware. Each request clears its cookies first.
_sender = Client(raise_request_exception=False)


def deploy_path(user_id: str) -> str:
    return f"{DESKS}/{user_id}/signal"


def bearer(token: str) -> dict[str, str]:
    """The ``Authorization`` header with this token."""
    return {"Authorization": f"Bearer {token}"}


def signed(*secrets: str, body: bytes, at: int | None = None) -> dict[str, str]:
    """The two headers that sign the body with each secret, now or at the Unix time ``at``."""
    moment = int(time.time()) if at is None else at
    return {
        signing.TIMESTAMP_HEADER: str(moment),
        signing.SIGNATURE_HEADER: ",".join(signing.sign(s, moment, body) for s in secrets),
    }


def written(body: dict[str, Any] | bytes) -> bytes:
    """The body as bytes: a dictionary is encoded as JSON."""
    return body if isinstance(body, bytes) else json.dumps(body).encode()


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
    browser.force_login(user)
    moment = time.time() if at is None else at
    session = browser.session
    session["account_authentication_methods"] = [{"method": m, "at": moment} for m in methods]
    session["account_authentication_methods_user"] = str(user.pk)
    session[SIGNED_IN_AT] = moment
    session.save()
    return browser


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

"""How the tests speak to the service: paths, credentials, bodies, and what came back."""

import json
import time
from typing import Any

from django.http import HttpResponse
from django.test import Client

from desks.models import User
from tokens import signing

CATALOG = "/api/v1"
ME = "/api/v1/me"
DESKS = "/api/v1/desks"
EVENTS = "/api/v1/events"
TOKENS = "/api/v1/tokens"
HOOK = "/api/hooks/signal"

JSON = "application/json"

# One for all, since making one loads the middleware; it keeps no cookies between two requests.
_sender = Client(raise_request_exception=False)


def deploy_path(user_id: str) -> str:
    return f"{DESKS}/{user_id}/signal"


def bearer(token: str) -> dict[str, str]:
    """The header that presents a token."""
    return {"Authorization": f"Bearer {token}"}


def signed(*secrets: str, body: bytes, at: int | None = None) -> dict[str, str]:
    """The two headers that sign these bytes with each of the secrets, now or at a Unix time."""
    moment = int(time.time()) if at is None else at
    return {
        signing.TIMESTAMP_HEADER: str(moment),
        signing.SIGNATURE_HEADER: ",".join(signing.sign(s, moment, body) for s in secrets),
    }


def written(body: dict[str, Any] | bytes) -> bytes:
    """The bytes of a body: a dictionary as JSON, bytes as they are."""
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def get(path: str, token: str | None = None, **headers: str) -> HttpResponse:
    presented = bearer(token) if token else {}
    _sender.cookies.clear()
    return _sender.get(path, headers={**presented, **headers})


def post(
    path: str,
    body: dict[str, Any] | bytes,
    token: str | None = None,
    *,
    secret: str | None = None,
    content_type: str = JSON,
    headers: dict[str, str] | None = None,
    **environ: Any,
) -> HttpResponse:
    """Sends a body with a token, with a secret's signature, with both, or with other headers."""
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
) -> HttpResponse:
    """Posts to the hook."""
    return post(HOOK, body, token, secret=secret, **more)


def signed_in(user: User, *methods: str, at: float | None = None, csrf: bool = False) -> Client:
    """A browser in which this user signed in by these methods: ``password``, ``mfa``.

    ``csrf`` makes it as strict about forged requests as the service is with a real one.
    """
    browser = Client(enforce_csrf_checks=csrf, raise_request_exception=False)
    browser.force_login(user)
    moment = time.time() if at is None else at
    session = browser.session
    session["account_authentication_methods"] = [{"method": m, "at": moment} for m in methods]
    session["account_authentication_methods_user"] = str(user.pk)
    session.save()
    return browser


def code(response: HttpResponse) -> str:
    """The code of a problem, or ``ok`` for an answer that is none."""
    return "ok" if response.status_code < 300 else str(response.json()["code"])


def faults(response: HttpResponse) -> dict[str, str]:
    """What was wrong with which field."""
    return {error["field"]: error["code"] for error in response.json().get("errors", [])}


def without_id(response: HttpResponse) -> tuple[int, dict[str, Any], dict[str, str]]:
    """All of an answer but the request's id: what two answers have in common that are the same."""
    body = {name: value for name, value in response.json().items() if name != "requestId"}
    headers = {name: value for name, value in response.items() if name != "X-Request-Id"}
    return response.status_code, body, headers

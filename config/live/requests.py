"""A request of the live server, answered by the same middleware and views as gunicorn's."""

import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

from django.core import signals
from django.http import HttpRequest, HttpResponseBase

from config.middleware import api_chain
from config.problems import problem, to_refusal
from config.wsgi import SanitizedRequest, application
from events.http.refusals import NotFound
from events.http.requests import state_of
from events.live.hub import hub
from events.live.opening import Opening
from events.live.streams import StreamResponse

# What this server serves. Every other path is a 404.
PATHS = frozenset(
    {"/api/v1/events", "/activity/stream", "/control/stream", "/healthz", "/readyz", "/metrics"}
)
# The paths that are asked to see whether the server is well. They never wait behind readers.
PROBES = frozenset({"/healthz", "/readyz", "/metrics"})

Scope = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """A response without its request.

    ``opening`` is the stream that begins with ``body``, and ``is_behind`` whether its reader still
    has to catch up. None: ``body`` is the whole answer.
    """

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    opening: Opening | None = None
    is_behind: bool = False


def respond(scope: Scope, door: object) -> Answer:
    """Answers a request. Blocks: it checks the credential and reads the database."""
    request = _request_of(scope)
    state_of(request).door = door
    signals.request_started.send(sender=SanitizedRequest, environ=request.META)
    serve = application.get_response if request.path_info in PATHS else _refuse
    response: HttpResponseBase = serve(request)
    try:
        if isinstance(response, StreamResponse):
            return _begun(request, response)
        return _answer_of(response)
    finally:
        response.close()  # gives the connection to the database back; a stream's opening lives on


def _begun(request: HttpRequest, response: StreamResponse) -> Answer:
    """A stream with the first that it reads: most readers have caught up by then."""
    opening = response.opening
    try:
        page = opening.read()
    except Exception as error:
        hub.dismiss(opening.reader)
        return _answer_of(problem(request, to_refusal(error)))
    first, headers = opening.first + (page or b""), _headers_of(response)
    return Answer(response.status_code, headers, first, opening, page is not None)


def _answer_of(response: HttpResponseBase) -> Answer:
    headers, body = _headers_of(response), b"".join(response)
    if body:
        headers.append((b"content-length", str(len(body)).encode()))
    return Answer(response.status_code, headers, body)


def _headers_of(response: HttpResponseBase) -> list[tuple[bytes, bytes]]:
    return [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in response.items()
    ]


def _request_of(scope: Scope) -> SanitizedRequest:
    """The request as gunicorn gives it to Django, without a body: nothing here reads one."""
    host, port = scope["server"] or ("127.0.0.1", 0)
    environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(scope["raw_path"]).decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": host,
        "SERVER_PORT": str(port),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": scope["client"][0] if scope["client"] else "",
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(),
    }
    return SanitizedRequest({**environ, **_meta(scope["headers"])})


def _meta(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The headers under their names in META. One with an underscore could imitate another."""
    found: dict[str, str] = {}
    for name, value in headers:
        if b"_" in name:
            continue
        key = name.decode("latin-1").upper().replace("-", "_")
        key = key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"
        text = value.decode("latin-1")
        found[key] = f"{found[key]},{text}" if key in found else text
    return found


def _not_served(request: HttpRequest) -> Any:
    return problem(request, NotFound())


_refuse = api_chain(_not_served)

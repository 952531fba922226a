"""The paths that the live server serves, by the same middleware and views as gunicorn."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from django.core import signals
from django.http import HttpResponseBase
from django.utils.http import http_date

from config.middleware import api_chain
from config.problems import problem
from config.server.request_heads import Environ
from config.wsgi import SanitizedRequest, application
from events.http.refusals import NotFound
from events.live.opening import READER_OF, Stream, StreamResponse
from events.live.streams import Reader, ReaderSpec

# What this server serves. Every other path is a 404.
PATHS = frozenset(
    {"/api/v1/events", "/activity/stream", "/control/stream", "/healthz", "/readyz", "/metrics"}
)
# The paths that are asked to see whether the server is well. They never wait behind readers.
PROBES = frozenset({"/healthz", "/readyz", "/metrics"})


@dataclass(frozen=True, slots=True)
class Answer:
    """A response without its request: the bytes of its head, and its body.

    ``stream`` is the stream that begins with ``body``, and ``is_behind`` whether its reader still
    has to catch up. None: ``body`` is the whole answer.
    """

    head: bytes
    body: bytes
    stream: Stream | None = None
    is_behind: bool = False


def respond(environ: Environ, new_reader: Callable[[ReaderSpec], Reader]) -> Answer:
    """Answers a request. Blocks: it checks the credential and reads the database."""
    request = SanitizedRequest({**environ, READER_OF: new_reader})
    signals.request_started.send(sender=SanitizedRequest, environ=environ)
    serve = application.get_response if request.path_info in PATHS else _refuse
    response: HttpResponseBase = serve(request)
    if isinstance(response, StreamResponse):
        # Gives the connection to the database back. The response stays open: it is the stream.
        signals.request_finished.send(sender=SanitizedRequest)
        stream, page = response.stream, response.page
        return Answer(_head(response), stream.first + (page or b""), stream, page is not None)
    with closing(response):  # the middleware has set its length, and emptied it for a HEAD
        return Answer(_head(response), b"".join(response))


def _head(response: HttpResponseBase) -> bytes:
    """The head of an answer, which ends with its connection."""
    headers = {**response.headers, "Date": http_date(), "Connection": "close"}
    lines = [f"HTTP/1.1 {response.status_code} {response.reason_phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


_refuse = api_chain(lambda request: problem(request, NotFound()))

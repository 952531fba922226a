"""The live server's connections: uvicorn's, with bounds on what a client may send before an answer.

uvicorn limits neither the size of a request's head nor the time that it takes. A proxy does both;
this server does too, so that a client that reaches it directly cannot hold memory for long.
"""

import asyncio
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from config import security_headers
from config.live.door import LiveReader

HEAD_TIMEOUT = 10  # seconds from the first byte of a request, or from the connection, to its head
# The bounds of gunicorn.conf.py, and one for all header fields together.
MAX_LINE = 4094
MAX_FIELDS = 64
MAX_FIELD = 8190
MAX_HEAD = 64 * 1024
MAX_PIPELINED = 8
VERSIONS = ("1.0", "1.1")


class NotARequestError(Exception):
    """The bytes are not a request. ``status`` is one of ``config.security_headers``."""

    def __init__(self, status: int) -> None:
        self.status = status


class Connection(HttpToolsProtocol):
    """A client that has not yet become a reader. The application finds it in ``scope``.

    Bytes that are no request get the answer that gunicorn's worker gives. A body is never read, and
    the connection closes after the answer to a request that has one.
    """

    __slots__ = ("_deadline", "_head_size")

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline: asyncio.TimerHandle | None = None
        self._head_size = 0
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_awaiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_between_requests():
            self._await_head()
            self._head_size += len(data)
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
            if self._is_between_requests() and self._head_size > MAX_HEAD:
                raise NotARequestError(431)
        except httptools.HttpParserUpgrade:
            return  # the answer to the request says nothing of the other protocol
        except httptools.HttpParserCallbackError as error:
            self._refuse(error.__context__)
        except (httptools.HttpParserError, NotARequestError) as error:
            self._refuse(error)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["connection"] = self  # type: ignore[typeddict-unknown-key]

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > MAX_LINE:
            raise NotARequestError(414)

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) > MAX_FIELDS or len(name) + len(value) > MAX_FIELD:
            raise NotARequestError(431)
        if b"\r" in value or b"\n" in value:  # a folded header
            raise NotARequestError(400)
        lower = name.lower()
        if lower == b"expect" and not self.expect_100_continue:
            raise NotARequestError(417)
        if lower == b"transfer-encoding" and value.strip().lower() != b"chunked":
            raise NotARequestError(501)

    def on_headers_complete(self) -> None:
        if self.parser.get_http_version() not in VERSIONS:
            raise NotARequestError(400)
        self._stop_awaiting()
        self._head_size = 0
        super().on_headers_complete()
        if len(self.pipeline) > MAX_PIPELINED:
            self.transport.abort()
        names = {name for name, _ in self.headers}
        if names & {b"content-length", b"transfer-encoding"}:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Drops the body: no path of this server reads one."""

    def become(self, reader: LiveReader, head: bytes) -> None:
        """Answers with this head, and gives the connection to the reader.

        Nothing else of this object is kept: no parser, no task, no buffer.
        """
        self.flow.resume_reading()
        self.cycle.response_started = self.cycle.response_complete = True
        self.connections.discard(self)
        reader.begin(self.transport, self.connections)
        reader.write(head)
        reader.flush()

    @property
    def is_lost(self) -> bool:
        return self.transport.is_closing()

    def _is_between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _await_head(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_TIMEOUT, self.transport.abort)

    def _stop_awaiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _refuse(self, error: Any) -> None:
        """Answers what is not a request, without repeating it."""
        self.logger.info("Not a request: %s", type(error).__name__)
        if not self._is_between_requests():  # another answer is on its way
            self.transport.abort()
            return
        self.transport.write(security_headers.answer_to_no_request(getattr(error, "status", 400)))
        self.transport.close()

"""The worker of gunicorn: it repeats nothing that it could not read, and waits for nobody long."""

import errno
import math
import socket
import time
from typing import Any

from gunicorn.http.body import LengthReader
from gunicorn.http.errors import (
    ExpectationFailed,
    LimitRequestHeaders,
    LimitRequestLine,
    ParseException,
    UnsupportedTransferCoding,
)
from gunicorn.workers.gthread import TConn, ThreadWorker

from config import browsers

# A request of 64 KiB and its headers arrive in that time on any line: seconds.
READING = 20
# An answer that nobody takes is given up after so long: seconds.
WRITING = 20
# How long a client has to close its side once it was answered: seconds.
CLOSING = 2
SHORTEST = 0.001
# What gunicorn reads of a body that was refused unread, to keep the connection: bytes.
READ_AFTER = 64 * 1024

SENTENCE = "This is not a request that the server reads."
BAD_REQUEST = (400, "Bad Request")
STATUSES = {
    LimitRequestLine: (414, "URI Too Long"),
    ExpectationFailed: (417, "Expectation Failed"),
    LimitRequestHeaders: (431, "Request Header Fields Too Large"),
    UnsupportedTransferCoding: (501, "Not Implemented"),
}


class Client(socket.socket):
    """A client's connection. One that stalls counts as gone: it would hold a thread for ever."""

    read_by = math.inf  # the moment by which the present request must have been read

    def recv(self, *args: Any) -> bytes:
        return bytes(self._within(self.read_by - time.monotonic(), super().recv, *args))

    def sendall(self, *args: Any) -> None:
        self._within(WRITING, super().sendall, *args)

    def _within(self, seconds: float, action: Any, *args: Any) -> Any:
        if self.gettimeout() is not None:  # whoever set one knows how long to wait
            return action(*args)
        self.settimeout(max(SHORTEST, min(seconds, READING)))
        try:
            return action(*args)
        except TimeoutError:
            raise ConnectionResetError(errno.ECONNRESET, "The client stalls.") from None
        finally:
            self.settimeout(None)


class Worker(ThreadWorker):  # type: ignore[misc]
    """Threads, as gunicorn has them, but for clients that stall or do not speak HTTP."""

    def enqueue_req(self, conn: TConn) -> None:
        if not isinstance(conn.sock, Client):
            conn.sock = Client(fileno=conn.sock.detach())
        super().enqueue_req(conn)

    def handle(self, conn: TConn) -> Any:
        """Serves one request. A last goodbye is waited for here, and not by the main loop."""
        conn.sock.read_by = time.monotonic() + READING
        kept = super().handle(conn)
        if not kept:
            _see_off(conn.sock)
        return kept

    def handle_request(self, req: Any, conn: TConn) -> Any:
        """Answers one request, and says so where the connection ends behind it.

        gunicorn closes behind a large body that was refused unread without having said so, and what
        the client sends next on that connection is lost.
        """
        body = req.body.reader
        if not (isinstance(body, LengthReader) and body.length < READ_AFTER):
            req.force_close()
        return super().handle_request(req, conn)

    def handle_error(self, req: Any, client: socket.socket, addr: Any, exc: Exception) -> None:
        """Answers what is not HTTP, without the header or the line at fault.

        gunicorn itself repeats it, in the answer and in its log, and it may be a credential
        (contract, section 5).
        """
        if not isinstance(exc, ParseException):
            super().handle_error(req, client, addr, exc)
            return
        status, reason = STATUSES.get(type(exc), BAD_REQUEST)
        self.log.info("Not a request: %s", type(exc).__name__)
        try:
            client.sendall(_refusal(status, reason))
        except OSError:
            self.log.debug("The sender of what was not a request is gone.")


def _refusal(status: int, reason: str) -> bytes:
    """An answer to what was not read: the same sentence always, and nothing of the request."""
    body = f"{reason}. {SENTENCE}\n".encode()
    headers = {
        **browsers.HEADERS,
        "Cache-Control": "no-store",
        "Connection": "close",
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Length": str(len(body)),
    }
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {text}" for name, text in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body


def _see_off(client: socket.socket) -> None:
    """Says that no more comes, and reads on until the client closes too, so that it gets it all."""
    client.settimeout(CLOSING)
    until = time.monotonic() + CLOSING
    try:
        client.shutdown(socket.SHUT_WR)
        while client.recv(4096) and time.monotonic() < until:
            pass
        client.shutdown(socket.SHUT_RDWR)
    except OSError:
        return

"""gunicorn's threaded worker, with its own error responses, stops and way to accept connections."""

import errno
import faulthandler
import os
import signal
import socket
import time
from concurrent.futures import Future
from contextlib import suppress
from types import FrameType
from typing import Any

from django.conf import settings
from gunicorn.http.errors import (
    ExpectationFailed,
    LimitRequestHeaders,
    LimitRequestLine,
    ParseException,
    UnsupportedTransferCoding,
)
from gunicorn.http.message import Request
from gunicorn.workers import gthread

from config import security_headers

# Every other error of the parser is a 400.
STATUSES = {
    LimitRequestLine: 414,
    ExpectationFailed: 417,
    LimitRequestHeaders: 431,
    UnsupportedTransferCoding: 501,
}

STOP_STREAMS = 4.0  # seconds over which a graceful stop spreads the ends of streams
STOP_AT_ONCE = 5.0  # seconds
STOPS = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)

LINGER = 2.0  # seconds that a client has to close a connection that ends


def hold_stops() -> None:
    """Before a fork: a new worker would lose a signal that comes before it can handle one.

    It would serve on until the stop's time is over, half a minute later.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)


def release_stops() -> None:
    """After a fork. What was held arrives now."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)


class Worker(gthread.ThreadWorker):  # type: ignore[misc]
    """gunicorn's threaded worker, with eight differences.

    - It repeats no invalid line or header in its responses or its log. gunicorn's worker does, and
      that line may hold a credential (contract, section 5).
    - It stops on a signal, at any time of its life.
    - While all its threads are busy, it leaves new connections to the other processes. gunicorn's
      worker accepts them, and they wait for its threads although another process is idle.
    - It writes no traceback for a client that reads too slowly.
    - It asks a client for its body when that is read: never for one that is refused by the head.
      gunicorn's worker sends 100 to every client that waits for it.
    - It ends a connection behind a body that no view reads, if that is chunked or large. gunicorn's
      worker reads on, and answers chunks that are not well formed a second time.
    - It waits in a thread for the client of a connection that ends. gunicorn's worker waits up to
      two seconds for each in the loop that serves all connections.
    - When it stops, it serves the connections that wait to be accepted and stops listening.
      gunicorn's worker lets them, and those that still come, wait until its last answer, and then
      resets them. A proxy repeats no change on a connection that was reset, but asks the next
      server if one is refused.
    """

    sockets: list[Any]  # the listeners
    nr_conns: int  # connections, idle ones included
    requests = 0  # that have a thread or wait for one
    is_full = False  # since a request came while all threads are busy, until one is done

    # --- New connections --------------------------------------------------------------------------

    def run(self) -> None:
        """Listens from now on, if gunicorn left it to the first worker that is ready."""
        for listener in self.sockets:
            if not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                listener.listen(self.cfg.backlog)
        super().run()

    def enqueue_req(self, conn: gthread.TConn) -> None:
        self.requests += 1
        super().enqueue_req(conn)
        if self.requests >= self.cfg.threads:
            self.is_full = True
            # The listeners stay open: the round of events that is running may hold them, too.
            super().set_accept_enabled(False)

    def finish_request(self, conn: gthread.TConn, fs: Future[object]) -> None:
        """Lets one more connection in: those that are kept open may keep all threads busy.

        gunicorn takes a connection off its count twice if the answer broke off.
        """
        self.requests -= 1
        self.is_full = False
        connections = self.nr_conns
        super().finish_request(conn, fs)
        self.nr_conns = max(self.nr_conns, connections - 1)

    def set_accept_enabled(self, enabled: bool) -> None:
        """gunicorn's loop calls this when it stops, and before a round in which it may accept."""
        is_stopping = not self.alive  # a signal may come at any time
        super().set_accept_enabled(enabled and not is_stopping and not self.is_full)
        if is_stopping:
            self._stop_listening()

    def _stop_listening(self) -> None:
        """Accepts the connections that wait, and closes the listeners.

        The port refuses connections once every process has closed them. After a reload gunicorn and
        its new workers keep them open.
        """
        listeners, self.sockets = self.sockets, []
        for listener in listeners:
            is_empty = False
            while not is_empty:
                connections = self.nr_conns
                self.accept(listener)  # lets other threads run; to ask for the backlog does not
                is_empty = self.nr_conns == connections and listener.get_backlog() <= 0
            listener.close()

    def handle(self, conn: gthread.TConn) -> object:
        outcome: object = super().handle(conn)
        if outcome is False:  # the connection ends
            _await_close(conn.sock)
        return outcome

    def handle_request(self, req: Request, conn: gthread.TConn) -> bool:
        """A client that does not take its answer in time is treated as one that left."""
        # gunicorn has no public name for it.
        if req._expected_100_continue:
            req._expected_100_continue = False
            req.body.reader = AskedFor(req.body.reader, conn.sock)
            req.force_close()  # nobody knows whether the client sends a body that was not asked for
        if not _may_be_read(req):
            req.force_close()  # nobody reads it to its end
        try:
            keeps_open: bool = super().handle_request(req, conn)
            return keeps_open
        except TimeoutError as error:
            raise BrokenPipeError(errno.EPIPE, "The client takes nothing.") from error

    # --- Errors and stops -------------------------------------------------------------------------

    def handle_error(
        self,
        req: Request | None,
        client: socket.socket,
        addr: tuple[str, int] | None,
        exc: Exception,
    ) -> None:
        if not isinstance(exc, ParseException):
            super().handle_error(req, client, addr, exc)
            return
        self.log.info("Not a request: %s", type(exc).__name__)
        try:
            client.sendall(refusal(exc))
        except OSError:
            self.log.debug("The client of an invalid request is gone.")

    def init_signals(self) -> None:
        super().init_signals()
        release_stops()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A graceful stop: streams and waiting requests end within ``STOP_STREAMS`` seconds."""
        if self.booted:
            _stop_streams(STOP_STREAMS)
        super().handle_exit(sig, frame)

    def handle_quit(self, sig: int, frame: FrameType | None) -> None:
        """A stop at once: requests that are being answered have ``STOP_AT_ONCE`` seconds.

        A worker that takes longer writes where each of its threads is, and exits. While the
        application is being imported, nobody is served yet. Python may ignore an exception that is
        raised then, such as gunicorn's SystemExit.
        """
        if not self.booted:
            os._exit(0)
        faulthandler.dump_traceback_later(STOP_AT_ONCE, exit=True)
        _stop_streams(0)
        super().handle_quit(sig, frame)


def refusal(error: ParseException) -> bytes:
    """The whole answer to what is no request."""
    return security_headers.answer_to_no_request(STATUSES.get(type(error), 400))


class AskedFor:
    """The reader of a body for which its client waits to be asked. It asks when it first reads."""

    def __init__(self, reader: Any, connection: socket.socket) -> None:
        self._reader = reader
        self._connection: socket.socket | None = connection

    def read(self, size: int) -> bytes:
        if self._connection is not None:
            self._connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._connection = None
        found: bytes = self._reader.read(size)
        return found


def _may_be_read(req: Request) -> bool:
    """Whether a view may read the body. ``events.http.bodies`` refuses chunks and large ones."""
    headers = dict(req.headers)
    length = int(headers.get("CONTENT-LENGTH", 0))
    return "TRANSFER-ENCODING" not in headers and length <= settings.DATA_UPLOAD_MAX_MEMORY_SIZE


def _await_close(connection: socket.socket) -> None:
    """Half-closes a connection, and waits until its client has closed it, at most ``LINGER``.

    A connection that is closed with data unread is reset, and the client may lose the answer.
    """
    ends_at = time.monotonic() + LINGER
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
        while (left := ends_at - time.monotonic()) > 0:
            connection.settimeout(left)
            if not connection.recv(4096):
                break
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RD)  # gunicorn, which closes it, finds nothing to wait for


def _stop_streams(seconds: float) -> None:
    # Models can be imported only once Django is set up, and gunicorn imports this module before.
    from events.live.hub import hub  # noqa: PLC0415

    hub.stop(seconds)

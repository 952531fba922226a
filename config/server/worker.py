"""gunicorn's threaded worker, with its own responses to invalid HTTP requests."""

import socket
from typing import Any

from gunicorn.http.errors import (
    ExpectationFailed,
    LimitRequestHeaders,
    LimitRequestLine,
    ParseException,
    UnsupportedTransferCoding,
)
from gunicorn.workers.gthread import ThreadWorker

from config.server import not_http

# Every other error of the parser is a 400.
STATUSES = {
    LimitRequestLine: 414,
    ExpectationFailed: 417,
    LimitRequestHeaders: 431,
    UnsupportedTransferCoding: 501,
}


class Worker(ThreadWorker):  # type: ignore[misc]
    """Repeats no invalid line or header in its responses or its log.

    gunicorn's worker does, and that line may hold a credential (contract, section 5).
    """

    def handle_error(self, req: Any, client: socket.socket, addr: Any, exc: Exception) -> None:
        if not isinstance(exc, ParseException):
            super().handle_error(req, client, addr, exc)
            return
        self.log.info("Not a request: %s", type(exc).__name__)
        try:
            client.sendall(not_http.answer(STATUSES.get(type(exc), 400)))
        except OSError:
            self.log.debug("The client of an invalid request is gone.")

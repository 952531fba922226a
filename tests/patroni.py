"""A stand-in for the Patroni of a standby."""

import json
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Patroni(ThreadingHTTPServer):
    """Says whether its standby is in the quorum, and streams.

    ``says`` is another answer, of whatever listens there instead.
    """

    may_be_read, streams, says = True, True, b""

    def __init__(self, address: str, port: int) -> None:
        super().__init__((address, port), Answer)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self.shutdown()
        self.server_close()


class Answer(BaseHTTPRequestHandler):
    server: Patroni

    def do_GET(self) -> None:
        assert self.path == "/quorum"
        state = {"replication_state": "streaming"} if self.server.streams else {}
        body = json.dumps({"state": "running", "role": "replica", **state}).encode()
        body = self.server.says or body
        self.send_response(200 if self.server.may_be_read else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle_one_request(self) -> None:
        with suppress(BrokenPipeError):  # who asked is gone
            super().handle_one_request()

    def log_message(self, *_: object) -> None:
        pass

"""Thousands of slow or silent clients.

Each kind has its own address, from 127.0.0.2 on, because nginx limits each address.
"""

import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.client import EVENTS, HOOK, signed
from tests.drills.layout import ADDRESS, Layout

HEAD = f"HTTP/1.1\r\nHost: {ADDRESS}\r\n"
SIGNED = "".join(f"{name}: {text}\r\n" for name, text in signed("secret", body=b"").items())
HEADER = f"POST {HOOK} {HEAD}X-Slow: "
# The service reads a body only if the signing headers are well formed.
BODY = f"POST {HOOK} {HEAD}{SIGNED}Content-Length: 65536\r\n\r\n{{"
STALLED = f"POST {HOOK} {HEAD}{SIGNED}Content-Length: 100\r\n\r\n"
# The same to the live server, which reads no body.
STREAM = f"GET {EVENTS} {HEAD}Accept: text/event-stream\r\n"
STREAM_BODY = f"{STREAM}Content-Length: 65536\r\n\r\n{{"
STREAM_STALLED = f"{STREAM}Content-Length: 100\r\n\r\n"
LARGE = "/static/rest_framework/css/bootstrap.min.css.map"
READING = f"GET {LARGE} {HEAD}Accept-Encoding: identity\r\n\r\n"
SMALL = 4096  # bytes that the kernel buffers for a client that does not read

SPARE = 1000  # file descriptors for the tests themselves


def following(token: str) -> str:
    """A request for a stream."""
    return f"{STREAM}Authorization: Bearer {token}\r\n\r\n"


class Crowd:
    """Clients of one kind. They send ``begun``, then one byte at a time if it is unfinished."""

    def __init__(self, port: int, address: str, number: int, begun: str) -> None:
        self.address = address
        self.clients = [_connected(port, address) for _ in range(number)]
        self.drips = bool(begun) and not begun.endswith("\r\n\r\n")
        self._send(begun.encode())

    def drip(self) -> None:
        if self.drips:
            self._send(b" ")

    def _send(self, part: bytes) -> None:
        for client in self.clients:
            with suppress(OSError):  # the server closed the connection
                client.send(part)

    def answered(self, status: int) -> int:
        """How many clients received an answer with this status."""
        begun = f"HTTP/1.1 {status} ".encode()
        return sum(_peek(client).startswith(begun) for client in self.clients)

    def close(self) -> None:
        for client in self.clients:
            client.close()


@contextmanager
def crowds(served: Layout, kinds: dict[str, tuple[int, str]]) -> Iterator[dict[str, Crowd]]:
    """Opens the clients of each kind, given as number and first text, until the block ends."""
    came: dict[str, Crowd] = {}
    try:
        for last, (kind, (number, begun)) in enumerate(kinds.items(), start=2):
            came[kind] = Crowd(served.port, f"127.0.0.{last}", number, begun)
        yield came
    finally:
        for crowd in came.values():
            crowd.close()


def allow_open_files(number: int) -> bool:
    """Raises the limit of open files for this process and its children. Whether that is allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < number + SPARE:
        return False
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, number + SPARE), hard))
    return True


def _connected(port: int, address: str) -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
    client.bind((address, 0))
    client.connect((ADDRESS, port))
    client.setblocking(False)
    return client


def _peek(client: socket.socket) -> bytes:
    with suppress(OSError):
        return client.recv(SMALL, socket.MSG_PEEK)
    return b""

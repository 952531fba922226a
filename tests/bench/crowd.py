"""The process of ``tests.bench.readers``: ``python -m tests.bench.crowd HOST PORT``.

It takes a command a line, as JSON, and answers each with a line. It takes little of the machine
that it shares with the server: one thread, raw sockets, and one look at the bytes, for the ids of
events, the names of desks and the last cursor.
"""

import json
import re
import resource
import select
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.bench.readers import PATIENCE

EVENT = re.compile(rb'"id":"evt_(\d+)"')
DESK = re.compile(rb"usr_[0-9A-Za-z]+")
REQUEST = (
    "GET /api/v1/events HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n"
    "Accept: text/event-stream\r\n{cursor}\r\n"
)
IP_BIND_ADDRESS_NO_PORT = 24  # Linux: a socket gets its port when it connects, not before
READ = 16 * 1024  # bytes. Python reserves them for each call: 256 KiB took 17 µs more.
POLLED = 1024  # sockets


class Reader:
    """One stream."""

    __slots__ = ("cursor", "desk", "events", "head", "line", "position", "rest", "token")

    def __init__(self, desk: str, token: str) -> None:
        self.desk, self.token = desk.encode(), token
        self.cursor = self.rest = b""
        self.line: socket.socket | None = None
        self.head = False  # whether the head of the answer has come
        self.position = self.events = 0


class Crowd:
    """All streams of the process."""

    def __init__(self, host: str, port: int) -> None:
        self.address, self.readers = (host, port), list[Reader]()
        self.poll = select.epoll()
        self.lines: dict[int, Reader] = {}
        self.waiting: list[Reader] = []  # to be opened, the next one last
        self.opening: set[Reader] = set()
        self.at_once, self.source = 1, 1
        self.statuses: Counter[int] = Counter()
        self.heads: Counter[int] = Counter()  # position: readers that have the event
        self.last: dict[int, float] = {}
        self.bytes = self.doubled = self.wrong = 0

    # --- Commands ---------------------------------------------------------------------------------

    def open(self, readers: list[list[str]], at_once: int) -> dict[str, Any]:
        new = [Reader(*reader) for reader in readers]
        self.readers += new
        return self._open(new, at_once, lambda: not (self.waiting or self.opening))

    def close_all(self) -> dict[str, Any]:
        for reader in self.readers:
            self._leave(reader)
        return {}

    def come_back(self, events: int, at_once: int) -> dict[str, Any]:
        goals = {reader: reader.events + events for reader in self.readers}
        behind = set(goals)

        def is_over() -> bool:
            # Only a few are asked each time: most of those that are behind stay so for long.
            while behind:
                reader = next(iter(behind))
                if reader.events < goals[reader]:
                    return False
                behind.discard(reader)
            return True

        return {**self._open(self.readers, at_once, is_over), "behind": len(behind)}

    def heard(self, position: int, readers: int, seconds: float) -> dict[str, Any]:
        self._run(lambda: self.heads[position] >= readers, seconds)
        return {"readers": self.heads[position], "last": self.last.get(position)}

    def report(self) -> dict[str, Any]:
        self._run(lambda: False, 0)
        return {
            "open": len(self.lines),
            "bytes": self.bytes,
            "doubled": self.doubled,
            "wrong": self.wrong,
            "counts": [reader.events for reader in self.readers],
        }

    # --- Sockets ----------------------------------------------------------------------------------

    def _open(
        self, readers: list[Reader], at_once: int, is_over: Callable[[], bool]
    ) -> dict[str, Any]:
        began = time.monotonic()
        self.source += 1  # ports of the streams before are still taken
        self.statuses.clear()
        self.waiting, self.at_once = readers[::-1], at_once
        self._open_more()
        self._run(is_over, PATIENCE)
        return {"seconds": time.monotonic() - began, "statuses": self.statuses}

    def _open_more(self) -> None:
        while self.waiting and len(self.opening) < self.at_once:
            reader = self.waiting.pop()
            line = socket.socket()
            line.setblocking(False)
            line.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            line.bind((f"127.0.0.{self.source}", 0))
            line.connect_ex(self.address)
            reader.line, reader.head, reader.rest = line, False, b""
            self.lines[line.fileno()] = reader
            self.opening.add(reader)
            self.poll.register(line, select.EPOLLOUT)

    def _run(self, is_over: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not is_over():
            left = deadline - time.monotonic()
            if left < 0:
                break
            for number, ready in self.poll.poll(left, POLLED):
                self._serve(number, ready)

    def idle(self) -> None:
        """Reads until a command comes on standard input."""
        for number, ready in self.poll.poll(-1, POLLED):
            if number != sys.stdin.fileno():
                self._serve(number, ready)

    def _serve(self, number: int, ready: int) -> None:
        reader = self.lines.get(number)
        if reader is None or reader.line is None:
            return
        try:
            if ready & select.EPOLLOUT:
                self._ask(reader)
            elif data := reader.line.recv(READ):
                self._take(reader, data)
            else:
                self._lost(reader)
        except OSError:
            self._lost(reader)

    def _ask(self, reader: Reader) -> None:
        cursor = f"Last-Event-ID: {reader.cursor.decode()}\r\n" if reader.cursor else ""
        host = f"{self.address[0]}:{self.address[1]}"
        request = REQUEST.format(host=host, token=reader.token, cursor=cursor)
        assert reader.line
        reader.line.sendall(request.encode())
        self.poll.modify(reader.line, select.EPOLLIN)

    def _take(self, reader: Reader, data: bytes) -> None:
        now = time.time()
        self.bytes += len(data)
        data = reader.rest + data
        if not reader.head:
            head, end, data = data.partition(b"\r\n\r\n")
            if not end:
                reader.rest = head
                return
            status = int(head[9:12])
            self.statuses[status] += 1
            if status != 200:
                self._lost(reader)
                return
            reader.head = True
            self.opening.discard(reader)
            self._open_more()
        whole, end, reader.rest = data.rpartition(b"\n\n")
        if not end:
            return
        for position in map(int, EVENT.findall(whole)):
            self.doubled += position <= reader.position
            reader.position = position
            reader.events += 1
            self.heads[position] += 1
            self.last[position] = now
        self.wrong += bool(set(DESK.findall(whole)) - {reader.desk})
        cursor = whole.rfind(b"id: ")
        if cursor >= 0:
            reader.cursor = whole[cursor + 4 :].partition(b"\n")[0]

    def _lost(self, reader: Reader) -> None:
        """Opens the stream again, after those that wait."""
        self._leave(reader)
        self.waiting.insert(0, reader)
        self._open_more()

    def _leave(self, reader: Reader) -> None:
        if reader.line is not None:
            self.lines.pop(reader.line.fileno(), None)
            reader.line.close()
        reader.line = None
        self.opening.discard(reader)


def main(host: str, port: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, hard), hard))
    crowd = Crowd(host, int(port))
    crowd.poll.register(sys.stdin, select.EPOLLIN)
    while True:
        ready, _, _ = select.select([sys.stdin], [], [], 0)
        if not ready:
            crowd.idle()
            continue
        asked = sys.stdin.readline()
        if not asked:
            return
        command, parameters = json.loads(asked)
        crowd.poll.unregister(sys.stdin)
        answer = getattr(crowd, command)(**parameters)
        crowd.poll.register(sys.stdin, select.EPOLLIN)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

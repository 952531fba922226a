"""Endpoints of webhooks, as one process: what it hears, and how long after the event.

The path says how to answer: ``/now``, ``/soon`` (after 50 ms) or ``/never``. It writes its port,
and answers each line of standard input with a JSON object of what it heard since the line before.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from tests.server import ROOT

SOON = 0.05  # seconds
ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"


class Endpoints:
    """The process, from the side of the benchmark."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        assert process.stdout
        self.port = int(process.stdout.readline())

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def heard(self) -> dict[str, Any]:
        """What was heard since the last call: ``lags`` in seconds, ``times``, ``unordered``."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def until_heard(self, count: int, limit: float) -> dict[str, Any]:
        """Waits until so many messages were heard, or for ``limit`` seconds."""
        deadline = time.monotonic() + limit
        found = self.heard()
        while len(found["times"]) < count and time.monotonic() < deadline:
            time.sleep(0.1)
            more = self.heard()
            found = {
                "lags": found["lags"] + more["lags"],
                "times": found["times"] + more["times"],
                "unordered": found["unordered"] + more["unordered"],
            }
        return found


@contextmanager
def endpoints() -> Iterator[Endpoints]:
    command = [sys.executable, "-m", "tests.bench.endpoints"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield Endpoints(process)
        finally:
            process.kill()


class _Heard:
    def __init__(self) -> None:
        self.lags: list[float] = []
        self.times: list[float] = []
        self.last: dict[str, int] = {}
        self.unordered = 0

    def note(self, path: str, body: bytes) -> None:
        now, message = time.time(), json.loads(body)
        if message["type"] == "subscription.test":
            return
        event = message["data"]
        self.times.append(now)
        self.lags.append(now - datetime.fromisoformat(event["at"]).timestamp())
        self.unordered += event["position"] <= self.last.get(path, 0)
        self.last[path] = max(event["position"], self.last.get(path, 0))

    def take(self) -> dict[str, Any]:
        found = {"lags": self.lags, "times": self.times, "unordered": self.unordered}
        self.lags, self.times, self.unordered = [], [], 0
        return found


async def _serve() -> None:
    heard = _Heard()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                path = head.split(" ", 2)[1]
                length = head.lower().split("content-length:")[1].split("\r\n")[0]
                body = await reader.readexactly(int(length))
                if path.startswith("/never"):
                    await asyncio.sleep(60)
                    continue  # the client is gone; noted now it would count in a later line
                heard.note(path, body)
                if path.startswith("/soon"):
                    await asyncio.sleep(SOON)
                writer.write(ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", 0, backlog=2000)
    print(server.sockets[0].getsockname()[1], flush=True)
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while await lines.readline():
        print(json.dumps(heard.take()), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve())

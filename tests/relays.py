"""The two relays, relay.py and relay.worker.js, as processes, and the services behind them.

The tests play the chart platform: its headers, its body, its second attempt after a 5xx.
"""

import json
import re
import resource
import secrets
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2

from tests.server import ROOT, Server

RELAY = ROOT / "static" / "relay.py"
WORKER = ROOT / "static" / "relay.worker.js"
SERVERLESS = ROOT / "tests" / "serverless.mjs"
NODE = shutil.which("node")

HERE = "127.0.0.1"
PATH = "/3mQ9cXo5uT2vWz8rYb1nKs7d"
PLATFORM = {"User-Agent": "Go-http-client/1.1", "Content-Type": "application/json; charset=utf-8"}
# Seconds that an alert may take: less than the limits that replace those of the relays.
PATIENCE = 120
IN_TIME = True
LITTLE_MEMORY = 3 * 512 * 1024  # bytes: enough to answer with, less than a thread's stack
# The relays give up before the platform does, after three seconds. A busy machine may need longer.
LONGER = {
    "ANSWER_TIMEOUT = 2.5 ": "ANSWER_TIMEOUT = 300 ",
    "CONNECTION_TIMEOUT = 3.0 ": "CONNECTION_TIMEOUT = 300 ",
    "acquire(timeout=POLL_INTERVAL)": "acquire(timeout=300)",
    "ANSWER_TIMEOUT = 2500;": "ANSWER_TIMEOUT = 300000;",
}
STARTING = 120  # seconds, on the slowest machine

# A machine of the trader's, where nothing of the service is.
PYTHON_RELAY = (sys.executable, "-I", str(RELAY))
WORKER_RELAY = (str(NODE), str(SERVERLESS), str(WORKER))


class Relay:
    """A running relay and its output."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self.port = 0
        self.pid = 0

    def log(self) -> str:
        return self._log.read_text()

    def url(self, path: str = PATH) -> str:
        return f"http://{HERE}:{self.port}{path}"

    def alert(self, text: str, path: str = PATH, **headers: str) -> httpx2.Response:
        """Sends an alert as the platform does."""
        return httpx2.post(
            self.url(path),
            content=text.encode(),
            headers={**PLATFORM, **headers},
            timeout=PATIENCE,
            trust_env=False,
        )


@contextmanager
def running(
    command: tuple[str, ...],
    folder: Path,
    hook: str,
    secret: str,
    in_time: bool = False,
    /,
    **settings: str | None,
) -> Iterator[Relay]:
    """Runs a relay with these settings until the block ends. None removes a setting.

    With ``IN_TIME`` the relay gives up as soon as it does in production.
    """
    own = {
        "RELAY_SECRET": secret,
        "RELAY_HOOK": hook,
        "RELAY_PATH": PATH,
        "RELAY_LISTEN": f"{HERE}:0",
        "RELAY_SENDERS": HERE,
    }
    environment = {name: text for name, text in (own | settings).items() if text is not None}
    relay = Relay(folder / f"relay-{secrets.token_hex(4)}")
    if not in_time:
        command = (*command[:-1], _patient(Path(command[-1]), folder))
    with open(relay._log, "wb") as log:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
    relay.pid = process.pid
    try:
        _wait_until_it_listens(process, relay)
        yield relay
    finally:
        process.terminate()
        status = process.wait(60)
    assert status == 0
    assert "Traceback" not in relay.log()


def _patient(program: Path, folder: Path) -> str:
    """A copy of a relay's program that waits longer."""
    copy = folder / f"patient-{program.name}"
    copy.write_text(patient(program.read_text()))
    return str(copy)


def patient(program: str) -> str:
    """The text of a relay's program, with longer limits."""
    assert any(own in program for own in LONGER)
    for own, longer in LONGER.items():
        program = program.replace(own, longer)
    return program


@contextmanager
def without_another_thread(relay: Relay) -> Iterator[None]:
    """Leaves the relay no memory for the stack of another thread until the block ends."""
    status = Path(f"/proc/{relay.pid}/status").read_text()
    used = 1024 * int(re.findall(r"VmSize:\s+(\d+) kB", status)[0])
    before = resource.prlimit(relay.pid, resource.RLIMIT_AS)
    resource.prlimit(relay.pid, resource.RLIMIT_AS, (used + LITTLE_MEMORY, before[1]))
    try:
        yield
    finally:
        resource.prlimit(relay.pid, resource.RLIMIT_AS, before)


def relaying(
    folder: Path, hook: str, secret: str, in_time: bool = False, /, **settings: str | None
) -> AbstractContextManager[Relay]:
    """Runs relay.py."""
    return running(PYTHON_RELAY, folder, hook, secret, in_time, **settings)


def _wait_until_it_listens(process: subprocess.Popen[bytes], relay: Relay) -> None:
    deadline = time.monotonic() + STARTING
    while process.poll() is None and time.monotonic() < deadline:
        if found := re.search(r"listening on port (\d+)", relay.log()):
            relay.port = int(found.group(1))
            return
        time.sleep(0.02)
    raise AssertionError(f"The relay did not start: {relay.log()}")


# --- The service ----------------------------------------------------------------------------------


def hook(server: Server) -> str:
    return f"{server.base_url}/api/hooks/signal"


def message(bot: dict[str, Any], **changes: Any) -> str:
    """The sample message of the page, with its placeholders filled in by the platform."""
    body = {
        "botId": bot["botId"],
        "pair": bot["pair"],
        "direction": bot["direction"],
        "nonce": f"15-{secrets.token_hex(8)}",
        "elected": True,
        "source": "tradingview",
        **changes,
    }
    return json.dumps({name: value for name, value in body.items() if value is not None})


def latest(server: Server, kind: str) -> Any:
    """The newest event of this kind on the bot's desk."""
    token = server.seed["desks"][0]["deskToken"]
    return _events(server, token, f"order=desc&limit=1&kind={kind}")[0]


def fills(server: Server) -> int:
    return len(_events(server, server.seed["platformToken"], "kind=signal.filled&limit=1000"))


def _events(server: Server, token: str, query: str) -> Any:
    answer = httpx2.get(
        f"{server.base_url}/api/v1/events?{query}",
        headers={"Authorization": f"Bearer {token}"},
        trust_env=False,
    )
    return answer.json()["events"]


# --- Other hooks ----------------------------------------------------------------------------------

Serve = Callable[[socket.socket, threading.Event], None]


@contextmanager
def listening(serve: Serve) -> Iterator[str]:
    """A fake hook that handles each connection with this function, in its own thread."""
    with socket.create_server((HERE, 0)) as hook:
        ended = threading.Event()

        def accept() -> None:
            while not ended.is_set():
                try:
                    client, _ = hook.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(client, ended), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://{HERE}:{hook.getsockname()[1]}/api/hooks/signal"
        ended.set()
        hook.shutdown(socket.SHUT_RDWR)


def answering(
    status: str = "200 OK", body: bytes = b"{}", heard: list[bytes] | None = None
) -> AbstractContextManager[str]:
    """A hook that gives this answer to everything, which it adds to ``heard``."""
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n"

    def serve(client: socket.socket, ended: threading.Event) -> None:
        with client:
            request = client.recv(65536)
            if heard is not None:
                heard.append(request)
            client.sendall(head.encode() + body)

    return listening(serve)


def answering_when(arrived: threading.Event, go_on: threading.Event) -> AbstractContextManager[str]:
    def serve(client: socket.socket, ended: threading.Event) -> None:
        with client:
            client.recv(65536)
            arrived.set()
            go_on.wait(PATIENCE)
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    return listening(serve)


def slow_hook(drips: bool) -> AbstractContextManager[str]:
    def serve(client: socket.socket, ended: threading.Event) -> None:
        with client:
            client.recv(65536)
            said = b"HTTP/1.1 200 OK\r\nX-Slow: "
            while not ended.wait(0.2):
                if drips:
                    with suppress(OSError):
                        client.sendall(said)
                    said = b"x"

    return listening(serve)


def losing_the_answer(server: Server) -> AbstractContextManager[str]:
    """A proxy that delivers the request and loses the response."""

    def serve(client: socket.socket, ended: threading.Event) -> None:
        host, port = server.base_url.removeprefix("http://").split(":")
        with client, socket.create_connection((host, int(port))) as onward:
            request = client.recv(65536)
            while request.count(b"}") == 0:
                request += client.recv(65536)
            onward.sendall(request)
            onward.recv(65536)

    return listening(serve)

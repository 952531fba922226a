"""The production layout on one machine: nginx in front of two web servers and a live server.

    with layout() as served:
        httpx2.get(f"{served.http}/healthz")

nginx runs with the configuration of ``deploy/``, on other ports and with a new certificate. The
servers, the database and the limits' store are those of ``tests.server``.
"""

import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.server import (
    ADDRESS,
    ROOT,
    Server,
    free_port,
    serving,
    serving_beside,
    serving_live,
)

DEPLOY = ROOT / "deploy"
NAME, LOCAL = "signals.example", "localhost"
NAMES = (NAME, LOCAL, ADDRESS)
FILES = ("nginx.conf", "headers.conf", "refusals.conf", "service.conf", "web.conf")
LIVE_AT = "127.0.0.1:8010"
LIVE = f"server {LIVE_AT} max_fails=0;"
# Replacements in these files for this machine, and for a load from one address.
HERE = {
    "worker_processes": "daemon off;\nworker_processes",
    "/var/log/nginx/": "",
    "/run/": "",
    "/var/cache/": "",
    f"server_name {NAME}": f"server_name {' '.join(NAMES)}",
}
UNLIMITED = {
    "rate=200r/s": "rate=10000r/s",
    "burst=400": "burst=10000",
    "limit_conn connections 256": "limit_conn connections 4096",
}
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
STARTING = 120  # seconds
TIMEOUT = 60  # seconds for an answer
NO_TLS = ssl.create_default_context()  # one for all requests: making it takes longer than one
POLL_INTERVAL = 0.02  # seconds

needs_nginx = pytest.mark.skipif(NGINX is None, reason="nginx is missing")
needs_postgresql = pytest.mark.skipif(
    not os.environ.get("TEST_DATABASE_URL", "").startswith("postgres"),
    reason="TEST_DATABASE_URL names no PostgreSQL",
)


@dataclass(frozen=True, slots=True)
class Layout:
    """The addresses of nginx, and the servers behind it."""

    http: str
    https: str
    port: int
    tls_port: int
    folder: Path
    webs: tuple[Server, ...]
    lives: tuple[Server, ...]

    def kill(self, web: Server) -> None:
        """Kills a web server and its workers at once."""
        for pid in listeners(int(web.environment["PORT"])):
            os.kill(pid, signal.SIGKILL)


@contextmanager
def layout(
    *,
    over_tls: bool = False,
    nox: bool = False,
    lives: int = 1,
    port: int = 0,
    changed: dict[str, str] = UNLIMITED,
    **settings: Any,
) -> Iterator[Layout]:
    """nginx, two web servers and so many live servers until the block ends.

    BASE_URL is the HTTP address, at ``port`` or a free one, or with ``over_tls`` the HTTPS address.
    ``changed`` are further replacements in nginx's files: by default, limits that no test reaches.
    """
    port, tls_port = port or free_port(), free_port()
    public = f"https://{LOCAL}:{tls_port}" if over_tls else f"http://{ADDRESS}:{port}"
    given: Any = {
        "ALLOWED_HOSTS": ",".join(NAMES),
        "TRUSTED_PROXIES": "1",
        "PATIENCE": "",
        **settings,
    }
    with (
        serving(nox=nox, BASE_URL=public, **given) as one,
        serving_beside(one, BASE_URL=public) as other,
        ExitStack() as stack,
    ):
        streaming = tuple(stack.enter_context(serving_live(one)) for _ in range(lives))
        with fronted(port, tls_port, (one, other), streaming, changed) as served:
            yield served


@contextmanager
def layout_without_webs() -> Iterator[Layout]:
    """nginx as it is deployed, with no server running, until the block ends."""
    with fronted(free_port(), free_port(), (), (), {}) as served:
        yield served


@contextmanager
def fronted(
    port: int,
    tls_port: int,
    webs: tuple[Server, ...],
    lives: tuple[Server, ...],
    changed: dict[str, str],
) -> Iterator[Layout]:
    """nginx at these ports, in front of these servers, until the block ends."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # nginx's workers run as another user
        ports = [web.environment["PORT"] for web in webs] or [str(free_port()), str(free_port())]
        streaming = [live.environment["LIVE_PORT"] for live in lives] or [str(free_port())]
        listening = {
            "127.0.0.1:8001": f"{ADDRESS}:{ports[0]}",
            "127.0.0.1:8002": f"{ADDRESS}:{ports[1]}",
            LIVE: "\n    ".join(LIVE.replace(LIVE_AT, f"{ADDRESS}:{live}") for live in streaming),
            "listen 80": f"listen {ADDRESS}:{port}",
            "listen 443": f"listen {ADDRESS}:{tls_port}",
        }
        _configure(folder, {**HERE, **listening, **changed})
        _certificate(folder / "tls")
        http, https = f"http://{ADDRESS}:{port}", f"https://{LOCAL}:{tls_port}"
        with _nginx(folder, port):
            yield Layout(http, https, port, tls_port, folder, webs, lives)


def _configure(folder: Path, changed: dict[str, str]) -> None:
    """Copies the files of ``deploy/`` with the replacements."""
    texts = {file: (DEPLOY / file).read_text() for file in FILES}
    for theirs, ours in changed.items():
        assert any(theirs in text for text in texts.values()), f"{theirs} is not in {DEPLOY}"
        texts = {file: text.replace(theirs, ours) for file, text in texts.items()}
    for file, text in texts.items():
        (folder / file).write_text(text)


def _certificate(folder: Path) -> None:
    folder.mkdir()
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-keyout", folder / "key.pem", "-out", folder / "certificate.pem"),
            *("-subj", f"/CN={NAME}"),
            *("-addext", f"subjectAltName=DNS:{NAME},DNS:{LOCAL},IP:{ADDRESS}"),
        ],
        check=True,
        capture_output=True,
    )


@contextmanager
def _nginx(folder: Path, port: int) -> Iterator[None]:
    command = [str(NGINX), "-p", str(folder), "-c", str(folder / "nginx.conf")]
    checked = subprocess.run([*command, "-t"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    with open(folder / "nginx.log", "wb") as log:
        nginx = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _wait_for(port, nginx, folder / "nginx.log")
        yield
    finally:
        nginx.send_signal(signal.SIGTERM)
        nginx.wait(STARTING)


def _wait_for(port: int, nginx: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + STARTING
    while nginx.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection((ADDRESS, port)).close()
        except ConnectionRefusedError:
            time.sleep(POLL_INTERVAL)
        else:
            return
    raise AssertionError(f"nginx did not start: {log.read_text()}")


def client_at(address: str) -> httpx2.Client:
    """A client whose connections come from this address."""
    transport = httpx2.HTTPTransport(local_address=address, verify=NO_TLS)
    return httpx2.Client(transport=transport, timeout=TIMEOUT, trust_env=False)


def listeners(port: int) -> list[int]:
    """The processes of the gunicorn that listens on the port, the oldest first."""
    inode = next(inode for _, state, inode in _sockets(port) if state == "0A")
    return sorted(pid for pid in _processes() if f"socket:[{inode}]" in _open_files(pid))


def connections(port: int) -> Counter[str]:
    """How many connections the server at the port has not closed, by the address of the client."""
    # Each once: the kernel repeats sockets in a list that changes while it is read.
    peers = {peer for peer, state, _ in _sockets(port) if state == "01"}
    return Counter(socket.inet_ntoa(bytes.fromhex(peer.partition(":")[0])[::-1]) for peer in peers)


def _sockets(port: int) -> Iterator[tuple[str, str, str]]:
    """The peer, the state and the inode of each socket at the port, as the kernel writes them."""
    local = f"0100007F:{port:04X}"
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1] == local:
            yield fields[2], fields[3], fields[9]


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _open_files(pid: int) -> set[str]:
    try:
        return {os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir()}
    except OSError:
        return set()

"""The layout of a production, as processes of this machine: nginx before two gunicorns.

    with layout() as found:
        httpx.get(f"{found.http}/healthz")

nginx runs with the configuration of ``deploy/``, other ports and a certificate of the moment. The
database and the limits are ``tests.server``'s: PostgreSQL and Redis where TEST_DATABASE_URL and
TEST_REDIS_URL name them.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.server import ADDRESS, ROOT, Server, free_port, serving, serving_beside

DEPLOY = ROOT / "deploy"
NAME, LOCAL = "signals.example", "localhost"
NAMES = (NAME, LOCAL, ADDRESS)
FILES = ("nginx.conf", "refusals.conf", "service.conf", "web.conf")
# What of these files is otherwise on this machine, and what a load of one address needs.
HERE = {
    "worker_processes": "daemon off;\nworker_processes",
    "/var/log/nginx/": "",
    "/run/": "",
    f"server_name {NAME}": f"server_name {' '.join(NAMES)}",
}
UNLIMITED = {
    "rate=200r/s": "rate=10000r/s",
    "burst=400": "burst=10000",
    "limit_conn connections 256": "limit_conn connections 4096",
}
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
STARTING = 30  # seconds
LOOK_AGAIN = 0.02  # seconds

needs_nginx = pytest.mark.skipif(NGINX is None, reason="not run for lack of nginx")
needs_postgresql = pytest.mark.skipif(
    not os.environ.get("TEST_DATABASE_URL", "").startswith("postgres"),
    reason="the layout of production has PostgreSQL",
)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where nginx answers, and the servers behind it, each with its own address and log."""

    http: str
    https: str
    port: int
    tls_port: int
    folder: Path
    webs: tuple[Server, ...]

    def kill(self, web: Server) -> None:
        """Ends a web server and its workers at once, in the middle of whatever they do."""
        for pid in _listeners(int(web.environment["PORT"])):
            os.kill(pid, signal.SIGKILL)


@contextmanager
def layout(*, over_tls: bool = False, nox: bool = False, **settings: str) -> Iterator[Layout]:
    """nginx, without its limits, and two web processes until the block ends.

    The public address is that of plain HTTP, or ``over_tls`` the other.
    """
    port, tls_port = free_port(), free_port()
    public = f"https://{LOCAL}:{tls_port}" if over_tls else f"http://{ADDRESS}:{port}"
    given = {"ALLOWED_HOSTS": ",".join(NAMES), "TRUSTED_PROXIES": "1", **settings}
    with (
        serving(nox=nox, BASE_URL=public, **given) as one,
        serving_beside(one, BASE_URL=public) as other,
        _fronted(port, tls_port, (one, other), UNLIMITED) as found,
    ):
        yield found


@contextmanager
def layout_without_webs() -> Iterator[Layout]:
    """nginx as it is deployed, before web servers that are all gone, until the block ends."""
    with _fronted(free_port(), free_port(), (), {}) as found:
        yield found


@contextmanager
def _fronted(
    port: int, tls_port: int, webs: tuple[Server, ...], changed: dict[str, str]
) -> Iterator[Layout]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # nginx's workers are another user
        ports = [web.environment["PORT"] for web in webs] or [free_port(), free_port()]
        listening = {
            "127.0.0.1:8001": f"{ADDRESS}:{ports[0]}",
            "127.0.0.1:8002": f"{ADDRESS}:{ports[1]}",
            "listen 80": f"listen {ADDRESS}:{port}",
            "listen 443": f"listen {ADDRESS}:{tls_port}",
        }
        _configure(folder, {**HERE, **listening, **changed})
        _certificate(folder / "tls")
        http, https = f"http://{ADDRESS}:{port}", f"https://{LOCAL}:{tls_port}"
        with _nginx(folder, port):
            yield Layout(http, https, port, tls_port, folder, webs)


def _configure(folder: Path, changed: dict[str, str]) -> None:
    """The files of ``deploy/``, with each text of theirs that is ``changed`` as it is here."""
    for file in FILES:
        text = (DEPLOY / file).read_text()
        for theirs, ours in changed.items():
            text = text.replace(theirs, ours)
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
            time.sleep(LOOK_AGAIN)
        else:
            return
    raise AssertionError(f"nginx did not start: {log.read_text()}")


def _listeners(port: int) -> list[int]:
    """The gunicorn that listens there and its workers, the eldest first."""
    wanted = f"0100007F:{port:04X}"
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    inode = next(
        line.split()[9] for line in lines if line.split()[1] == wanted and line.split()[3] == "0A"
    )
    return sorted(pid for pid in _processes() if f"socket:[{inode}]" in _open_files(pid))


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _open_files(pid: int) -> set[str]:
    try:
        return {os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir()}
    except OSError:
        return set()

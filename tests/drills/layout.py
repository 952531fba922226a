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

from tests.server import ADDRESS, ROOT, Server, serving, serving_beside

DEPLOY = ROOT / "deploy"
NAME, LOCAL = "signals.example", "localhost"
NAMES = (NAME, LOCAL, ADDRESS)
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
    """Where nginx answers, and the two servers behind it, each with its own address and log."""

    http: str
    https: str
    port: int
    tls_port: int
    folder: Path
    webs: tuple[Server, Server]

    def kill(self, web: Server) -> None:
        """Ends a web server and its workers at once, in the middle of whatever they do."""
        for pid in _listeners(int(web.environment["PORT"])):
            os.kill(pid, signal.SIGKILL)


@contextmanager
def layout(
    *, limited: bool = False, over_tls: bool = False, nox: bool = False, **settings: str
) -> Iterator[Layout]:
    """nginx and two web processes until the block ends.

    ``limited`` with nginx's own limits; ``over_tls`` with the address of https as the public one.
    """
    port, tls_port = free_port(), free_port()
    http, https = f"http://{ADDRESS}:{port}", f"https://{LOCAL}:{tls_port}"
    public = https if over_tls else http
    given = {"ALLOWED_HOSTS": ",".join(NAMES), "TRUSTED_PROXIES": "1", **settings}
    with (
        tempfile.TemporaryDirectory() as name,
        serving(nox=nox, BASE_URL=public, **given) as one,
        serving_beside(one, BASE_URL=public) as other,
    ):
        folder = Path(name)
        folder.chmod(0o755)  # nginx's workers are another user
        webs = (one, other)
        _configure(folder, port, tls_port, webs, limited=limited)
        with _nginx(folder, port):
            yield Layout(http, https, port, tls_port, folder, webs)


def free_port() -> int:
    with socket.socket() as anybody:
        anybody.bind((ADDRESS, 0))
        return int(anybody.getsockname()[1])


def _configure(
    folder: Path, port: int, tls_port: int, webs: tuple[Server, Server], *, limited: bool
) -> None:
    """The files of ``deploy/`` with this machine's ports and name in them."""
    for name in ("refusals.conf", "service.conf"):
        shutil.copy(DEPLOY / name, folder)
    for number, web in zip(("8001", "8002"), webs, strict=True):
        text = ((folder if number == "8002" else DEPLOY) / "web.conf").read_text()
        (folder / "web.conf").write_text(text.replace(number, web.environment["PORT"]))
    text = (DEPLOY / "nginx.conf").read_text()
    text = text.replace("/var/log/nginx/", "").replace("/run/", "")
    text = text.replace("listen 80", f"listen {ADDRESS}:{port}")
    text = text.replace("listen 443", f"listen {ADDRESS}:{tls_port}")
    text = text.replace(f"server_name {NAME}", f"server_name {' '.join(NAMES)}")
    if not limited:
        text = text.replace("rate=200r/s", "rate=10000r/s").replace("burst=400", "burst=10000")
        text = text.replace("limit_conn connections 256", "limit_conn connections 4096")
    (folder / "nginx.conf").write_text(f"daemon off;\n{text}")
    (folder / "tls").mkdir()
    _certificate(folder / "tls")


def _certificate(folder: Path) -> None:
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

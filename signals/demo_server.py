"""The service of a demonstration: a database of its own, and real gunicorn before it."""

import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".demo"
ADDRESS = "127.0.0.1"

LOOK_AGAIN = 0.05  # seconds
STARTING = 60  # seconds, on the slowest machine
STOPPING = 10  # seconds


class DemonstrationError(Exception):
    """Why a demonstration ends otherwise than it should, in one sentence."""


def check_port(port: int) -> None:
    """Raises ``DemonstrationError`` where somebody has the port."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((ADDRESS, port))
        except OSError as fault:
            raise DemonstrationError(
                f"Port {port} cannot be had ({fault.strerror}). Choose another: PORT=8001."
            ) from None


def prepare(port: int, *, ready: int, idle: int) -> tuple[dict[str, str], dict[str, Any]]:
    """A new database, seeded: the environment that serves it, and what the seeding printed."""
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob(f"{port}.sqlite3*"):
        old.unlink()
    environment = _environment(port)
    _manage(environment, "migrate", "--no-input", "--verbosity=0")
    _manage(environment, "createcachetable")
    _manage(environment, "collectstatic", "--no-input", "--verbosity=0")
    seeded = _manage(environment, "seed", f"--desks={ready}", f"--idle={idle}", "--json")
    return environment, json.loads(seeded)


@contextmanager
def serving(environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Serves until the block ends, however it ends; begins when the service is ready."""
    command = ["gunicorn", "-c", "config/gunicorn.conf.py"]
    server = subprocess.Popen([sys.executable, "-m", *command], cwd=ROOT, env=environment)
    try:
        _wait_until_ready(server, environment["BASE_URL"])
        yield server
    finally:
        _stop(server)


def _environment(port: int) -> dict[str, str]:
    """This process's environment, with settings of the demonstration's own and no others."""
    described = (ROOT / ".env.example").read_text()
    settings = set(re.findall(r"^(?:# )?([A-Z_]+)=", described, re.MULTILINE))
    inherited = {name: value for name, value in os.environ.items() if name not in settings}
    keys = {name: secrets.token_hex(32) for name in ("SECRET_KEY", "TOKEN_KEYS", "SECRET_KEYS")}
    return {
        **inherited,
        **keys,
        "ENV_FILE": os.devnull,
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "PYTHONUNBUFFERED": "1",  # mail is printed when it is sent
        "BASE_URL": f"http://localhost:{port}",
        "ALLOWED_HOSTS": f"localhost,{ADDRESS}",
        "HOST": ADDRESS,
        "PORT": str(port),
        "DATABASE_URL": f"sqlite:///{quote(str(FOLDER / f'{port}.sqlite3'))}",
        "LOG_LEVEL": "warning",  # what is told of the round has the terminal for itself
        "REQUIRE_HTTPS": "off",
        "REQUIRE_STAFF_MFA": "off",
    }


def _manage(environment: dict[str, str], *command: str) -> str:
    """Runs a command of manage.py and returns what it printed."""
    done = subprocess.run(
        [sys.executable, "manage.py", *command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise DemonstrationError(f"manage.py {command[0]} ended with {done.returncode}.")
    return done.stdout


def _wait_until_ready(server: subprocess.Popen[bytes], base_url: str) -> None:
    deadline = time.monotonic() + STARTING
    while server.poll() is None and time.monotonic() < deadline:
        try:
            if httpx.get(f"{base_url}/readyz", trust_env=False).is_success:
                return
        except httpx.TransportError:
            time.sleep(LOOK_AGAIN)
    raise DemonstrationError("The server did not become ready.")


def _stop(server: subprocess.Popen[bytes]) -> None:
    """Ends the server and its workers; nothing interrupts that."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    server.send_signal(signal.SIGINT)
    try:
        server.wait(STOPPING)
    except subprocess.TimeoutExpired:
        server.kill()  # its workers see that it is gone, and go
        server.wait()

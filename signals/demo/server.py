"""Runs the service for a demonstration: gunicorn with a new database."""

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
from urllib.parse import quote

import httpx2
from django.core.management.base import CommandError

from events.json_schema import JsonObject

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".demo"
ADDRESS = "127.0.0.1"

POLL_INTERVAL = 0.05  # seconds
START_TIMEOUT = 300  # seconds, enough for a slow machine
STOP_TIMEOUT = 10  # seconds


def check_port(port: int) -> None:
    """Raises ``CommandError`` if the port is in use."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((ADDRESS, port))
        except OSError as error:
            raise CommandError(
                f"Port {port} is not available ({error.strerror}). Choose another: PORT=8001."
            ) from None


def prepare(port: int, *, ready: int, idle: int) -> tuple[dict[str, str], JsonObject]:
    """Creates and seeds a new database. Returns its environment and the output of ``seed``."""
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
    """Runs the server, and the runner of webhooks. Enters the block when the server is ready.

    Stops both when the block ends.
    """
    commands = (["-m", "gunicorn", "-c", "config/gunicorn.conf.py"], ["manage.py", "deliver"])
    server, runner = (
        subprocess.Popen([sys.executable, *command], cwd=ROOT, env=environment)
        for command in commands
    )
    try:
        _wait_until_ready(server, environment["BASE_URL"])
        yield server
    finally:
        _stop(server)
        _stop(runner)


def _environment(port: int) -> dict[str, str]:
    """This process's environment, with the service's settings replaced by the demonstration's."""
    described = (ROOT / ".env.example").read_text()
    settings = set(re.findall(r"^(?:# )?([A-Z_]+)=", described, re.MULTILINE))
    inherited = {name: value for name, value in os.environ.items() if name not in settings}
    keys = {name: secrets.token_hex(32) for name in ("SECRET_KEY", "TOKEN_KEYS", "SECRET_KEYS")}
    return {
        **inherited,
        **keys,
        "ENV_FILE": os.devnull,
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "PYTHONUNBUFFERED": "1",  # prints mail at once
        "BASE_URL": f"http://localhost:{port}",
        "ALLOWED_HOSTS": f"localhost,{ADDRESS}",
        "HOST": ADDRESS,
        "PORT": str(port),
        "DATABASE_URL": f"sqlite:///{quote(str(FOLDER / f'{port}.sqlite3'))}",
        "LOG_LEVEL": "warning",  # keeps the terminal clear for the output of the round
        "REQUIRE_HTTPS": "off",
        "DELIVERY_ALLOW": "127.0.0.0/8",
        "REQUIRE_STAFF_MFA": "off",
    }


def _manage(environment: dict[str, str], *command: str) -> str:
    """Runs a command of manage.py and returns its output."""
    done = subprocess.run(
        [sys.executable, "manage.py", *command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CommandError(f"manage.py {command[0]} failed with status {done.returncode}.")
    return done.stdout


def _wait_until_ready(server: subprocess.Popen[bytes], base_url: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while server.poll() is None and time.monotonic() < deadline:
        try:
            if httpx2.get(f"{base_url}/readyz", trust_env=False).is_success:
                return
        except httpx2.TransportError:
            time.sleep(POLL_INTERVAL)
    raise CommandError("The server did not become ready.")


def _stop(server: subprocess.Popen[bytes]) -> None:
    """Stops a process and its children, ignoring further signals to this process."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    server.send_signal(signal.SIGINT)
    try:
        server.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        server.kill()  # its workers notice that and exit
        server.wait()

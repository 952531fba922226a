"""The demonstration: a round over real HTTP, and a server that is gone when it is over."""

import fcntl
import io
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import httpx
import pytest
from django.core.management import call_command

from desks import actions
from signals.demo_server import FOLDER, ROOT
from signals.demonstration import Round

pytestmark = pytest.mark.once

READY = 3
OTHERWISE = "NOT AS IT SHOULD BE"
NOBODY = {"platformToken": "", "desks": [{"userId": "usr_1"}]}

# What is set for the service itself, and would break a demonstration that it reached.
OF_THE_SERVICE = {
    "DJANGO_SETTINGS_MODULE": "config.settings",
    "ENV_FILE": os.devnull,
    "DEBUG": "on",
    "DATABASE_URL": "postgres://nobody@127.0.0.1:1/nothing",
    "CACHE_URL": "rediscache://127.0.0.1:1/0",
    "LIMITS_URL": "redis://127.0.0.1:1/0",
    "LIMIT_AUTOMATION": "1/hour",
    "ALLOWED_HOSTS": "signals.example",
    "REQUIRE_HTTPS": "on",
    "HTTP_PROXY": "http://127.0.0.1:1",
}


@pytest.fixture
def seeded(transactional_db):
    printed = io.StringIO()
    call_command("seed", f"--desks={READY}", "--idle=1", "--json", stdout=printed)
    return json.loads(printed.getvalue())


def test_a_round_that_goes_well_says_so(live_server, seeded):
    told = []
    assert Round(live_server.url, seeded, READY, told.append).play()
    assert OTHERWISE not in "".join(told)


def test_a_round_tells_each_request_and_its_outcome(live_server, seeded):
    told = []
    Round(live_server.url, seeded, READY, told.append).play()
    text = "\n".join(told)
    user_id = seeded["desks"][0]["userId"]
    for part in (
        "GET /api/v1/desks?ready=1&limit=3",
        f'POST /api/v1/desks/{user_id}/signal {{"pair":"BTC/USDT"',
        f'outcome="filled", matched={READY}, filled={READY}',
        'status=409, code="nonce_used", identical=true',
        'status=422, code="direction_mismatch", elected.direction="long"',
        'status=422, code="ticker_only"',
    ):
        assert part in text


def test_a_round_shows_no_credential(live_server, seeded):
    told = []
    Round(live_server.url, seeded, READY, told.append).play()
    for secret in (seeded["platformToken"], seeded["automation"]["secret"]):
        assert secret not in "".join(told)


def test_another_number_than_it_should_be_is_told_and_the_round_goes_on(live_server, seeded):
    told = []
    assert not Round(live_server.url, seeded, READY + 1, told.append).play()
    assert sum(OTHERWISE in line for line in told) == 1
    assert any("reads on from where the log ended" in line for line in told)


def test_another_status_than_it_should_be_is_told(live_server, seeded):
    actions.retire_card()
    told = []
    assert not Round(live_server.url, seeded, READY, told.append).play()
    assert any(OTHERWISE in line for line in told)


def test_a_server_that_is_not_there_is_told():
    told = []
    assert not Round("http://127.0.0.1:1", NOBODY, READY, told.append).play()
    assert "the round ends here" in told[-1]


@pytest.fixture
def alone():
    """One demonstration at a time: they collect the same static files."""
    FOLDER.mkdir(exist_ok=True)
    with open(FOLDER / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def listening():
    """A port that somebody has."""
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        yield somebody.getsockname()[1]


def free_port():
    with listening() as port:
        return port


def demo(*arguments):
    return subprocess.Popen(
        [sys.executable, "manage.py", "demo", *arguments],
        cwd=ROOT,
        env={**os.environ, **OF_THE_SERVICE},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answers(port):
    try:
        return httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False).is_success
    except httpx.TransportError:
        return False


@pytest.mark.processes
def test_once_it_ends_after_the_round_and_leaves_no_server(alone):
    port = free_port()
    process = demo("--once", f"--port={port}")
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert "Everything went as it should." in out
    assert not answers(port)


@pytest.mark.processes
def test_it_stays_for_a_browser_until_it_is_interrupted(alone):
    port = free_port()
    process = demo(f"--port={port}")
    told = []
    for line in process.stdout:
        told.append(line)
        if "Ctrl-C ends it" in line:
            break
    assert answers(port)
    process.send_signal(signal.SIGTERM)  # treated as Ctrl-C is
    assert process.wait() == 0
    assert not answers(port)
    process.stdout.close()
    process.stderr.close()
    text = "".join(told)
    assert f"http://localhost:{port}/control/" in text
    assert "admin@example.com" in text
    assert "user@example.com" in text


@pytest.mark.processes
def test_a_port_that_somebody_has_is_said_in_one_line():
    with listening() as port:
        process = demo(f"--port={port}")
        out, err = process.communicate()
    assert process.returncode == 1
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith(f"CommandError: Port {port} cannot be had (Address already in use)")

"""The demonstration: a round over HTTP, and a server that stops when it ends."""

import fcntl
import io
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import httpx2
import pytest
from django.core.management import call_command

from desks import actions
from desks.models.notice import NoticeKind
from events.actors import SYSTEM
from signals.demo.round import Round
from signals.demo.server import FOLDER, ROOT
from tests.drills.stage import in_drills
from tests.notices import waiting, write
from tests.server import free_port

pytestmark = [pytest.mark.processes, pytest.mark.once]

READY = 3
OTHERWISE = "NOT AS EXPECTED"
NOBODY = {"platformToken": "", "desks": [{"userId": "usr_1"}]}

# Settings of the environment that must not reach the demonstration.
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


def test_a_round_prints_each_request_and_its_outcome_and_no_credential(live_server, seeded):
    printed = []
    assert Round(live_server.url, seeded, READY, printed.append).play()
    text = "\n".join(printed)
    assert OTHERWISE not in text
    for secret in (seeded["platformToken"], seeded["automation"]["secret"]):
        assert secret not in text
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


def test_after_an_unexpected_count_the_round_continues_and_its_first_refusal_is_told(
    live_server, seeded
):
    printed = []
    assert not Round(live_server.url, seeded, READY + 1, printed.append).play()
    assert sum(OTHERWISE in line for line in printed) == 1
    assert any("reads the feed from the saved cursor" in line for line in printed)
    write()
    assert waiting(NoticeKind.REFUSALS) == ["A signal of Chart alerts was refused"]


def test_an_unexpected_status_is_reported(live_server, seeded):
    actions.retire_card(actor=SYSTEM)
    printed = []
    assert not Round(live_server.url, seeded, READY, printed.append).play()
    assert any(OTHERWISE in line for line in printed)


def test_an_unreachable_server_is_reported():
    printed = []
    assert not Round("http://127.0.0.1:1", NOBODY, READY, printed.append).play()
    assert "the round stops here" in printed[-1]


@pytest.fixture
def alone():
    """One demonstration at a time: they collect the same static files."""
    FOLDER.mkdir(exist_ok=True)
    with open(FOLDER / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def listening():
    """A port that is in use."""
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        yield somebody.getsockname()[1]


def demo(*arguments, **how):
    return subprocess.Popen(
        [sys.executable, "manage.py", "demo", *arguments],
        cwd=ROOT,
        env={**os.environ, **OF_THE_SERVICE},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **how,
    )


def ignore_ctrl_c():
    """As a shell does for what it starts in the background."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def answers(port):
    try:
        return httpx2.get(f"http://127.0.0.1:{port}/healthz", trust_env=False).is_success
    except httpx2.TransportError:
        return False


@pytest.mark.processes
@in_drills
def test_once_it_ends_after_the_round_and_leaves_no_server(alone):
    port = free_port()
    process = demo("--once", f"--port={port}")
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert "Every response was as expected." in out
    assert not answers(port)


@pytest.mark.processes
@in_drills
def test_it_stays_for_a_browser_until_it_is_interrupted(alone):
    port = free_port()
    process = demo(f"--port={port}", start_new_session=True, preexec_fn=ignore_ctrl_c)
    printed = []
    for line in process.stdout:
        printed.append(line)
        if "Press Ctrl-C to stop" in line:
            break
    assert answers(port)
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C: to the server, too
    end, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert end.endswith("The demonstration is over.\n")
    assert not answers(port)
    text = "".join(printed)
    assert f"http://localhost:{port}/control/" in text
    assert "admin@example.com" in text
    assert "user@example.com" in text


@pytest.mark.processes
def test_a_port_in_use_is_reported_in_one_line():
    with listening() as port:
        process = demo(f"--port={port}")
        out, err = process.communicate()
    assert process.returncode == 1
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith(f"CommandError: Port {port} is not available (Address already in use)")

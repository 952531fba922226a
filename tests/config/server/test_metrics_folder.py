"""The folders of metrics in memory: nothing grows, and nobody loses what is theirs."""

import fcntl
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx2
import pytest

from config.environment import ROOT
from config.server.metrics_folder import PREFIX, remove_abandoned
from tests.config.test_settings import KEYS, environment
from tests.server import METRICS_TOKEN, free_port, gauge

pytestmark = pytest.mark.once

MEMORY = Path("/dev/shm" if Path("/dev/shm").is_dir() else tempfile.gettempdir())  # noqa: S108
COUNTED = 'signals_http_requests_total{route="healthz",status="200"}'
NOBODY = 65534


def wait_until(condition):
    """Returns once the condition holds. The test's timeout bounds it."""
    while not condition():
        time.sleep(0.02)


class Gunicorn:
    """A web server with its folder of metrics."""

    def __init__(self, database, workers):
        self.port, self._number = free_port(), workers
        self.base_url = f"http://localhost:{self.port}"
        settings = environment(
            **KEYS,
            DATABASE_URL=f"sqlite:///{database}",
            REQUIRE_HTTPS="off",
            PORT=str(self.port),
            WEB_CONCURRENCY=str(workers),
            METRICS_TOKEN=METRICS_TOKEN,
        )
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", "-c", "config/gunicorn.conf.py"],
            cwd=ROOT,
            env=settings,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        wait_until(lambda: self.answers() or self.process.poll() is not None)
        (self.folder,) = MEMORY.glob(f"{PREFIX}{self.process.pid}-*")

    def answers(self):
        try:
            return httpx2.get(f"{self.base_url}/healthz", trust_env=False).is_success
        except httpx2.TransportError:
            return False

    def workers(self):
        return set(
            Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        )

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def reload(self):
        """Returns once all workers are new ones."""
        before = self.workers()
        self.process.send_signal(signal.SIGHUP)
        self.wait_for_workers_other_than(before)

    def wait_for_workers_other_than(self, gone):
        wait_until(lambda: len(now := self.workers()) == self._number and not now & gone)
        wait_until(self.answers)


@pytest.fixture
def start(tmp_path):
    """Starts web servers, which end with the test."""
    started = []

    def start_one(workers=1):
        started.append(Gunicorn(tmp_path / "service.sqlite3", workers))
        return started[-1]

    yield start_one
    for server in started:
        server.process.terminate()
        server.process.wait(60)


@pytest.mark.processes
def test_a_server_that_starts_removes_what_a_killed_one_left_and_nothing_else(start):
    killed, running = start(), start()
    killed.kill()
    assert killed.folder.is_dir()
    assert start().folder.is_dir()
    assert not killed.folder.exists()
    assert gauge(running.base_url, COUNTED) >= 1
    folder = running.folder
    running.process.terminate()
    running.process.wait(60)
    assert not folder.exists()


def planted(parent, owner=None):
    """A folder that holds a lock's file and one more."""
    folder = parent / f"{PREFIX}1-{secrets.token_hex(4)}"
    folder.mkdir(0o700)
    for name in ("lock", "counter_1.db"):
        (folder / name).touch()
    if owner:
        os.chown(folder, owner, owner)
    return folder


def test_the_folder_of_workers_that_outlive_their_killed_master_stays(tmp_path):
    used, abandoned = planted(tmp_path), planted(tmp_path)
    with open(used / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        remove_abandoned(tmp_path)
    assert used.is_dir()
    assert not abandoned.exists()


def test_a_folder_whose_lock_is_not_made_yet_stays(tmp_path):
    folder = planted(tmp_path)
    (folder / "lock").unlink()
    remove_abandoned(tmp_path)
    assert folder.is_dir()


def test_a_link_that_somebody_planted_leads_nowhere(tmp_path):
    elsewhere, memory = tmp_path / "elsewhere", tmp_path / "memory"
    elsewhere.mkdir()
    memory.mkdir()
    (elsewhere / "lock").touch()
    link = memory / f"{PREFIX}1-{secrets.token_hex(4)}"
    link.symlink_to(elsewhere)
    folder = planted(memory)
    (folder / "lock").unlink()
    (folder / "lock").symlink_to(elsewhere / "lock")
    remove_abandoned(memory)
    assert folder.is_dir()
    assert link.is_symlink()
    assert (elsewhere / "lock").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="not run for lack of another user: needs root")
def test_another_users_folder_stays(tmp_path):
    folder = planted(tmp_path, owner=NOBODY)
    remove_abandoned(tmp_path)
    assert folder.is_dir()


@pytest.mark.processes
def test_reloads_and_killed_workers_lose_no_counts(start):
    server = start(workers=2)
    counted = gauge(server.base_url, COUNTED)
    for _ in range(2):
        server.reload()
    killed = server.workers().pop()
    os.kill(int(killed), signal.SIGKILL)
    server.wait_for_workers_other_than({killed})
    assert gauge(server.base_url, COUNTED) >= counted + 3

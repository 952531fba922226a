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
    """A web server of one worker with its folder of metrics."""

    def __init__(self, database):
        self.port = free_port()
        self.base_url = f"http://localhost:{self.port}"
        settings = environment(
            **KEYS,
            DATABASE_URL=f"sqlite:///{database}",
            REQUIRE_HTTPS="off",
            PORT=str(self.port),
            WEB_CONCURRENCY="1",
            METRICS_TOKEN=METRICS_TOKEN,
        )
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", "-c", "config/gunicorn.conf.py"],
            cwd=ROOT,
            env=settings,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: self.answers() or self.process.poll() is not None)
        (self.folder,) = MEMORY.glob(f"{PREFIX}{self.process.pid}-*")

    def answers(self):
        try:
            return httpx2.get(f"{self.base_url}/healthz", trust_env=False).is_success
        except httpx2.TransportError:
            return False

    def worker(self):
        """The worker's process, or None while there is none, or two."""
        children = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        found = Path(children).read_text().split()
        return int(found[0]) if len(found) == 1 else None

    def send(self, number, process):
        """Sends a signal, and returns once another worker answers."""
        before = self.worker()
        os.kill(process, number)
        wait_until(lambda: self.worker() not in (None, before))
        wait_until(self.answers)


@pytest.mark.processes
def test_a_server_loses_no_counts_by_a_reload_or_a_kill_and_removes_what_nobody_uses(tmp_path):
    abandoned = planted(MEMORY)
    server = Gunicorn(tmp_path / "service.sqlite3")
    try:
        assert not abandoned.exists()
        counted = gauge(server.base_url, COUNTED)
        server.send(signal.SIGHUP, server.process.pid)
        server.send(signal.SIGKILL, server.worker())
        assert gauge(server.base_url, COUNTED) >= counted + 2
        remove_abandoned(MEMORY)  # as another server that starts
        assert server.folder.is_dir()
    finally:
        server.process.terminate()
        server.process.wait(60)
    assert not server.folder.exists()


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

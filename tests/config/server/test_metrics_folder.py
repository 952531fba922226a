"""The folder of metrics in memory: nothing grows, and no count is lost."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from config.environment import ROOT
from config.server.metrics_folder import PREFIX
from tests.config.test_settings import KEYS, environment
from tests.server import METRICS_TOKEN, free_port, gauge

pytestmark = pytest.mark.once

COUNTED = 'signals_http_requests_total{route="healthz",status="200"}'


def wait_until(condition):
    """Returns once the condition holds. The test's timeout bounds it."""
    while not condition():
        time.sleep(0.02)


class Gunicorn:
    """A web server of one worker with its folder of metrics."""

    def __init__(self, memory):
        self.port = free_port()
        self.base_url = f"http://localhost:{self.port}"
        settings = environment(
            **KEYS,
            DATABASE_URL=f"sqlite:///{memory / 'service.sqlite3'}",
            RUNTIME_DIRECTORY=str(memory),
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
        (self.folder,) = memory.glob(f"{PREFIX}{self.process.pid}-*")

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
def test_a_server_loses_no_counts_by_a_reload_or_a_kill_and_removes_its_own_folder_alone(tmp_path):
    other = tmp_path / f"{PREFIX}1-of-another"
    other.mkdir()
    server = Gunicorn(tmp_path)
    try:
        counted = gauge(server.base_url, COUNTED)
        server.send(signal.SIGHUP, server.process.pid)
        server.send(signal.SIGKILL, server.worker())
        assert gauge(server.base_url, COUNTED) >= counted + 2
    finally:
        server.process.terminate()
        server.process.wait(60)
    assert not server.folder.exists()
    assert other.is_dir()

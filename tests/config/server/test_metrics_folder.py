"""The folder of metrics in memory: nothing grows, and no count is lost."""

import os
import signal
from pathlib import Path

import httpx2
import pytest

from config.server.metrics_folder import PREFIX
from tests.server import METRICS_TOKEN, Server, gauge, process_of, serving
from tests.streams import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.once]

COUNTED = 'signals_http_requests_total{route="healthz",status="200"}'


def answers(server: Server) -> bool:
    try:
        return httpx2.get(f"{server.base_url}/healthz", trust_env=False).is_success
    except httpx2.TransportError:
        return False


def worker_of(gunicorn: int) -> int | None:
    """The worker's process, or None while there is none, or two."""
    found = Path(f"/proc/{gunicorn}/task/{gunicorn}/children").read_text().split()
    return int(found[0]) if len(found) == 1 else None


def replace_worker(server: Server, number: signal.Signals, process: int) -> None:
    """Sends a signal, and returns once another worker answers."""
    gunicorn = process_of(server)
    before = worker_of(gunicorn)
    os.kill(process, number)
    wait_until(lambda: worker_of(gunicorn) not in (None, before), "There is no other worker.")
    wait_until(lambda: answers(server), "It does not answer.")


def test_a_server_loses_no_counts_by_a_reload_or_a_kill_and_removes_its_own_folder_alone(tmp_path):
    other = tmp_path / f"{PREFIX}1-of-another"
    other.mkdir()
    with serving(
        WEB_CONCURRENCY="1", METRICS_TOKEN=METRICS_TOKEN, RUNTIME_DIRECTORY=str(tmp_path)
    ) as server:
        gunicorn = process_of(server)
        (folder,) = tmp_path.glob(f"{PREFIX}{gunicorn}-*")
        counted = gauge(server.base_url, COUNTED)
        replace_worker(server, signal.SIGHUP, gunicorn)
        worker = worker_of(gunicorn)
        assert worker
        replace_worker(server, signal.SIGKILL, worker)
        assert gauge(server.base_url, COUNTED) >= counted + 2
    assert not folder.exists()
    assert other.is_dir()

"""The benchmark starts, and its baseline loads whatever the service imports."""

import os
import subprocess
import sys

import pytest

from tests.bench.line import BARE
from tests.server import ROOT

pytestmark = [pytest.mark.processes, pytest.mark.once]


def test_the_baseline_loads_as_gunicorn_loads_it(tmp_path):
    environment = {
        **os.environ,
        **BARE,
        "STATIC_ROOT": str(tmp_path),
        "CACHE_PREFIX": "bare",
    }
    loaded = subprocess.run(
        [sys.executable, "-c", "import config.wsgi"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert loaded.returncode == 0, loaded.stderr


@pytest.mark.parametrize("name", ["tests.bench", "tests.bench.large"])
def test_the_benchmarks_start(name):
    started = subprocess.run(
        [sys.executable, "-m", name, "--help"], capture_output=True, text=True, cwd=ROOT
    )
    assert started.returncode == 0, started.stderr

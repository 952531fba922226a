"""The service as it was before signals shared turns at the log, for comparison in the same run."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench import load
from tests.bench.line import Effort, Line, a_second, rates, ratio
from tests.bench.load import CONNECTIONS, MANY
from tests.server import ROOT, STARTING, Server

COMMIT = "d3bc67b"  # the last one with a turn for each signal
# Its own test server serves it, on its own database, until standard input closes.
SERVE = """
import json, sys
from tests.server import serving
with serving(ready=int(sys.argv[1])) as server:
    print(json.dumps([server.base_url, server.seed]), flush=True)
    sys.stdin.read()
"""
# That commit knows this library by its earlier name.
HTTPX = "from httpx2 import *\n"


def comparison(server: Server, effort: Effort) -> Iterator[Line]:
    """Deploys of the service compared with deploys of the earlier one, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        if not _check_out(Path(folder)):
            return
        with _serving(Path(folder), effort.ready) as earlier:
            loads = {"now": load.deploy(server), "earlier": load.deploy(earlier)}
            measured = {
                connections: load.interleaved(loads, effort, connections)
                for connections in (1, CONNECTIONS, MANY)
            }
    alone = measured.pop(1)
    yield Line(
        f"time of a deploy of a lone client ÷ at commit {COMMIT}",
        ratio(rates(alone["earlier"]), rates(alone["now"])),
        most=1.05,
        note=f"{1000 / statistics.median(rates(alone['now'])):.2f} ms",
    )
    for connections, rounds in measured.items():
        yield Line(
            f"deploys a second at {connections} connections ÷ at commit {COMMIT}",
            ratio(rates(rounds["now"]), rates(rounds["earlier"])),
            note=f"{a_second(rounds['now'])}, then {a_second(rounds['earlier'])}",
        )


def _check_out(folder: Path) -> bool:
    """Copies the files of the commit to a folder. Returns False if git does not have it."""
    command = ["git", "archive", "--format=tar", COMMIT]
    archive = subprocess.run(command, cwd=ROOT, capture_output=True)
    if archive.returncode:
        print(f"Not compared with commit {COMMIT}: git does not have it.", file=sys.stderr)
        return False
    subprocess.run(["tar", "--extract"], cwd=folder, input=archive.stdout, check=True)
    (folder / "httpx.py").write_text(HTTPX)
    return True


@contextmanager
def _serving(folder: Path, ready: int) -> Iterator[Server]:
    guard = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(ready)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert guard.stdin
    assert guard.stdout
    try:
        base_url, seed = json.loads(guard.stdout.readline())
        yield Server(base_url, seed, environment={}, log=folder / "log")
    finally:
        guard.stdin.close()
        guard.wait(STARTING)

"""The runner of webhooks runs beside the server: it is started again, and ends with it."""

import os
import signal
import subprocess
import sys

import pytest

from config.environment import ROOT
from tests.signals.webhooks.runner.stage import until

pytestmark = [pytest.mark.processes, pytest.mark.once]

# Writes its process id, and the signals that it gets, as lines of a file.
CHILD = """
import os, signal, sys
def note(text):
    with open(sys.argv[1], "a") as file:
        file.write(text + "\\n")
def end(number, frame):
    note(str(number))
    sys.exit(int(sys.argv[2]))
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, end)
note(str(os.getpid()))
signal.pause()
"""
MAIN = """
import sys
from config.server.beside import main
import config.server.beside
config.server.beside.PAUSE = 0.1
child, server, runner = sys.argv[1:]
def command(file, status):
    return [sys.executable, "-c", child, file, status]
sys.exit(main(command(server, "7"), command(runner, "0")))
"""


class Pair:
    def __init__(self, folder):
        self.server, self.runner = folder / "server", folder / "runner"
        arguments = [CHILD, str(self.server), str(self.runner)]
        self.process = subprocess.Popen([sys.executable, "-c", MAIN, *arguments], cwd=ROOT)
        until(lambda: self.lines(self.server) and self.lines(self.runner))

    def lines(self, file):
        return [int(line) for line in file.read_text().split()] if file.exists() else []


@pytest.fixture
def pair(tmp_path):
    found = Pair(tmp_path)
    yield found
    found.process.kill()
    found.process.wait()


def is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_goes_to_the_server_whose_status_counts_and_the_runner_ends_with_it(pair, number):
    pair.process.send_signal(number)
    assert pair.process.wait(30) == 7
    assert pair.lines(pair.server)[1:] == [number]
    assert pair.lines(pair.runner)[1:] == [signal.SIGTERM]


def test_a_runner_that_ends_is_started_again(pair):
    (first,) = pair.lines(pair.runner)
    os.kill(first, signal.SIGKILL)
    until(lambda: len(pair.lines(pair.runner)) == 2)
    assert len(pair.lines(pair.server)) == 1


def test_nothing_is_left_behind_by_a_kill(pair):
    pids = [*pair.lines(pair.server), *pair.lines(pair.runner)]
    pair.process.kill()
    until(lambda: all(is_gone(pid) for pid in pids))

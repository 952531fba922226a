"""Runs gunicorn and, beside it, the runner that delivers webhooks: what ``make serve`` starts.

The runner is started again if it ends, and ends with gunicorn. Signals go to gunicorn. Both
processes end if this one is killed. It needs neither Django nor the settings.
"""

import ctypes
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from types import FrameType

GUNICORN = (sys.executable, "-m", "gunicorn", "-c", "config/gunicorn.conf.py")
RUNNER = (sys.executable, "manage.py", "deliver")
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
PAUSE = 2.0  # seconds until the runner is started again
DRAIN = 20.0  # seconds in which the runner finishes what is in flight
PR_SET_PDEATHSIG = 1


def main(server: Sequence[str] = GUNICORN, runner: Sequence[str] = RUNNER) -> int:
    """Returns the server's exit status, when both have ended."""
    served = _start(server)
    over = threading.Event()
    beside = threading.Thread(target=_keep_running, args=(runner, over), daemon=True)

    def forward(number: int, frame: FrameType | None) -> None:
        served.send_signal(number)

    for number in FORWARDED:
        signal.signal(number, forward)
    beside.start()
    status = served.wait()
    over.set()
    beside.join(DRAIN)
    return status if status >= 0 else 128 - status


def _keep_running(command: Sequence[str], over: threading.Event) -> None:
    while not over.is_set():
        running = _start(command)
        while running.poll() is None and not over.wait(0.2):
            pass
        if over.is_set():
            running.terminate()
            running.wait()
        else:
            over.wait(PAUSE)


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """A child in a group of its own, so that Ctrl-C reaches it only through this process."""
    return subprocess.Popen(command, preexec_fn=_end_with_parent, process_group=0)  # noqa: S603, PLW1509


def _end_with_parent() -> None:
    """On Linux a child gets SIGTERM when the thread that started it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())

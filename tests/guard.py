"""Runs a server until standard input closes: the process between a test and its server.

It imports the standard library only, so that it starts at once.
"""

import os
import signal
import subprocess
import sys
import threading

GUNICORN = (sys.executable, "-m", "gunicorn", "-c", "config/gunicorn.conf.py")
PROGRAMS = {
    "web": GUNICORN,
    "live": (sys.executable, "-m", "config.live"),
    "deliver": (sys.executable, "manage.py", "deliver"),
}
STOPPING = 40  # seconds: longer than gunicorn's graceful_timeout


def main(program: str) -> None:
    """Exits at once if the program exits."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    server = subprocess.Popen(PROGRAMS[program], stdin=subprocess.DEVNULL)
    threading.Thread(target=lambda: os._exit(abs(server.wait())), daemon=True).start()
    try:
        sys.stdin.buffer.read()
    finally:
        _end(server)


def _end(server: subprocess.Popen[bytes]) -> None:
    server.send_signal(signal.SIGINT)
    try:
        server.wait(STOPPING)
    except subprocess.TimeoutExpired:
        server.kill()  # gunicorn's workers exit when the parent process is gone


if __name__ == "__main__":
    main(sys.argv[1])

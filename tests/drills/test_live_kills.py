"""The live server behind nginx is killed and restarted, and no reader misses anything.

The same readers and writers as in ``tests/events/live/test_stream_oracle.py``.
``STREAM_ORACLE_ROUNDS`` makes it longer.
"""

import itertools
import os
import signal
import threading

import pytest

from tests.drills.layout import layout, needs_nginx, needs_postgresql
from tests.drills.stage import in_drills
from tests.server import Server, process_of, serving_live
from tests.stream_oracle import assert_complete, follow_all

pytestmark = [
    pytest.mark.processes,
    pytest.mark.timeout(900),
    in_drills,
    needs_nginx,
    needs_postgresql,
]

ROUNDS = int(os.environ.get("STREAM_ORACLE_ROUNDS", "200"))
UP = 3  # seconds from the start of a live server to its end
ENDS = (signal.SIGKILL, signal.SIGTERM)  # in turn


def serve_and_kill(server: Server, port: str, over: threading.Event, starts: list[str]) -> None:
    """Starts the live server and ends it, again and again, until ``over`` is set."""
    for number in itertools.count():
        with serving_live(server, LIVE_PORT=port) as live:
            starts.append(live.base_url)
            if over.wait(UP):
                return
            os.kill(process_of(live), ENDS[number % len(ENDS)])


def test_every_stream_shows_what_the_list_shows_while_the_live_server_comes_and_goes():
    starts: list[str] = []
    over = threading.Event()
    with layout() as served:
        os.kill(process_of(served.lives[0]), signal.SIGKILL)
        server, port = served.webs[0], served.lives[0].environment["LIVE_PORT"]
        killing = threading.Thread(target=serve_and_kill, args=(server, port, over, starts))
        killing.start()
        try:
            followed = follow_all(server, served.http, ROUNDS)
        finally:
            over.set()
            killing.join()
    assert_complete(followed)
    assert len(starts) > 2

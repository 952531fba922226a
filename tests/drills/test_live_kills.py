"""The live server is killed and restarted while everything changes, and no reader misses anything.

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
from tests.server import ADDRESS, Server, free_port, process_of, serving, serving_live
from tests.stream_oracle import assert_complete, follow_all

pytestmark = [
    pytest.mark.processes,
    pytest.mark.timeout(900),
    in_drills,
]

ROUNDS = int(os.environ.get("STREAM_ORACLE_ROUNDS", "60"))
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


def assert_nothing_is_missed(server: Server, port: str, live_url: str) -> None:
    """Lets readers follow at ``live_url`` while the live server comes and goes at the port."""
    starts: list[str] = []
    over = threading.Event()
    killing = threading.Thread(target=serve_and_kill, args=(server, port, over, starts))
    killing.start()
    try:
        followed = follow_all(server, live_url, ROUNDS)
    finally:
        over.set()
        killing.join()
    assert_complete(followed)
    assert len(starts) > 2


def test_every_stream_shows_what_the_list_shows_while_the_live_server_comes_and_goes():
    port = str(free_port())
    with serving(ready=8, idle=0, PATIENCE="") as server:
        assert_nothing_is_missed(server, port, f"http://{ADDRESS}:{port}")


@needs_nginx
@needs_postgresql
def test_every_stream_shows_what_the_list_shows_behind_nginx_too():
    with layout() as served:
        os.kill(process_of(served.lives[0]), signal.SIGKILL)
        port = served.lives[0].environment["LIVE_PORT"]
        assert_nothing_is_missed(served.webs[0], port, served.http)

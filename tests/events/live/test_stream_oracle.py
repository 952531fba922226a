"""Every stream shows what the list shows, byte for byte, each event once, in order. A stop ends it.

Meanwhile desks enrol, withdraw, disconnect and come back, are deactivated and reactivated, cards
change, tokens are minted, revoked and expire, fan-outs run, and readers lose their connections.
``STREAM_ORACLE_ROUNDS`` makes it longer.
"""

import os
import signal
from contextlib import ExitStack

import httpx2
import pytest

from config.server.worker import STOP_STREAMS
from tests.client import bearer
from tests.conformance.streams import MEDIA_TYPE, frames_of
from tests.server import process_of, serving
from tests.stream_oracle import assert_complete, follow_all

pytestmark = [pytest.mark.processes]

ROUNDS = int(os.environ.get("STREAM_ORACLE_ROUNDS", "25"))  # make drills: more


def test_every_stream_shows_what_the_list_shows():
    with serving(THREADS="40", WAITING_READERS="34") as server:
        followed = follow_all(server, server.base_url, ROUNDS)
    assert_complete(followed)
    assert all(follower.streams > 1 for follower, _ in followed)


@pytest.mark.once
def test_a_stop_ends_every_stream_and_says_why():
    assert STOP_STREAMS < 5  # seconds (contract, section 4, events)
    with serving(WEB_CONCURRENCY="1") as server, ExitStack() as streams:
        client = streams.enter_context(httpx2.Client(base_url=server.base_url, trust_env=False))
        opened = [
            streams.enter_context(
                client.stream(
                    "GET",
                    "/api/v1/events",
                    headers={**bearer(server.seed[token]), "Accept": MEDIA_TYPE},
                )
            )
            for token in ("platformToken", "platformToken", "readToken")
        ]
        frames = [frames_of(answer.iter_lines()) for answer in opened]
        assert all(next(each).retry for each in frames)
        os.kill(process_of(server), signal.SIGTERM)
        ends = [[frame for frame in each if frame.event][-1] for each in frames]
        assert {frame.data for frame in ends} == {'{"reason":"restarting"}'}

"""Thousands of slow clients and some ordinary requests, through nginx to every server.

nginx uses the files of ``deploy/`` with shorter timeouts, so that the test takes less time.
"""

import json
import re
import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx2
import pytest

from tests.client import EVENTS, HOOK, bearer, signed
from tests.config.live.test_live import STREAM
from tests.conformance.streams import frames_of
from tests.drills.layout import layout, needs_nginx, needs_postgresql
from tests.drills.slow_clients import (
    BODY,
    HEADER,
    READING,
    STALLED,
    STREAM_BODY,
    STREAM_STALLED,
    allow_open_files,
    crowds,
    following,
)
from tests.signals.bodies import nox
from tests.signals.contract.test_relay import message

SILENT, SLOW_HEADERS, SLOW_BODIES, STALLED_BODIES, SLOW_READERS = 2000, 500, 500, 100, 200
KINDS = {
    "silent": (SILENT, ""),
    "headers": (SLOW_HEADERS, HEADER),
    "bodies": (SLOW_BODIES, BODY),
    "stalled": (STALLED_BODIES, STALLED),
    "readers": (SLOW_READERS, READING),
    # To the live server:
    "bodies of streams": (SLOW_BODIES, STREAM_BODY),
    "stalled streams": (STALLED_BODIES, STREAM_STALLED),
}
DRIPPING = ("bodies", "bodies of streams")  # nginx waits for them, but only for a few of an address
FOLLOWERS = "readers of streams"
OF_ONE_ADDRESS = 256  # concurrent requests that nginx allows
SHORTER = {
    "client_header_timeout 10s": "client_header_timeout 4s",
    "client_body_timeout 10s": "client_body_timeout 4s",
    "send_timeout 20s": "send_timeout 4s",
    "backlog=4096": "backlog=4096 sndbuf=16k",  # a default buffer hides slow readers
}
LARGE_EVENTS = 300  # of 1.5 KB of text
METRICS_TOKEN = secrets.token_hex(32)
WAITING = 8  # seconds that the reader of the feed waits
ENDED_WITHIN = 10  # seconds: the timeouts and a margin
AT_MOST = 1.0  # seconds that an ordinary request takes
TIMEOUT = 30  # seconds

pytestmark = [
    pytest.mark.processes,
    pytest.mark.alone,
    needs_nginx,
    needs_postgresql,
    pytest.mark.skipif(
        not allow_open_files(2 * (SLOW_READERS + sum(number for number, _ in KINDS.values()))),
        reason="the limit of open files is too low",
    ),
]


@pytest.fixture(scope="module")
def served():
    with layout(changed=SHORTER, LIMIT_STREAMS="off", METRICS_TOKEN=METRICS_TOKEN) as served:
        yield served


def ordinary(served, listener):
    """The duration of a few requests in seconds, each on a new connection.

    The last one is that of a signal until its event has reached the listener.
    """
    bot, token = served.webs[0].seed["automation"], served.webs[0].seed["desks"][0]["deskToken"]
    body = message(bot).encode()
    requests = [
        ("GET", "/readyz", {}, b""),
        ("GET", "/api/v1/me", bearer(token), b""),
        ("POST", HOOK, signed(bot["secret"], body=body), body),
    ]
    for method, path, headers, content in requests:
        began = time.monotonic()
        answer = httpx2.request(
            method,
            f"{served.http}{path}",
            headers=headers,
            content=content,
            timeout=TIMEOUT,
            trust_env=False,
        )
        assert answer.status_code == 200, answer.text
        yield path, time.monotonic() - began
    listener.wait_for(answer.json()["signal"]["position"])
    yield EVENTS, time.monotonic() - began


class Listener(threading.Thread):
    """A reader of a stream of the log, which takes each event as it comes."""

    def __init__(self, served):
        super().__init__(daemon=True)
        self._served = served
        self._moved = threading.Condition()
        self._position = None
        self.start()
        self.wait_for(0)

    def run(self):
        headers = {**bearer(self._served.webs[0].seed["platformToken"]), **STREAM}
        url = f"{self._served.http}{EVENTS}"
        with (
            httpx2.Client(timeout=TIMEOUT, trust_env=False) as http,
            http.stream("GET", url, headers=headers) as answer,
            suppress(httpx2.TransportError),  # nginx stops with the test
        ):
            self._come_to(0)
            for frame in frames_of(answer.iter_lines()):
                if frame.data:
                    self._come_to(json.loads(frame.data)["position"])

    def wait_for(self, position):
        """Waits until the stream has come to the position."""
        with self._moved:
            assert self._moved.wait_for(
                lambda: self._position is not None and self._position >= position, TIMEOUT
            )

    def _come_to(self, position):
        with self._moved:
            self._position = position
            self._moved.notify_all()


def fill_log(served):
    """Writes more than all buffers between the live server and a client hold."""
    card = {name: served.webs[0].seed["card"][name] for name in ("pair", "direction")}
    headers = bearer(served.webs[0].seed["platformToken"])
    with httpx2.Client(base_url=served.http, timeout=TIMEOUT, trust_env=False) as http:
        for _ in range(LARGE_EVENTS):
            body = nox(mode="draft", rationale="\N{BLACK STAR}" * 500, **card)
            assert http.post(HOOK, json=body, headers=headers).status_code == 200


def counted(served, name):
    """The value of a metric of the live server."""
    url = f"{served.lives[0].base_url}/metrics"
    text = httpx2.get(url, headers=bearer(METRICS_TOKEN), trust_env=False).text
    return int(float(re.search(rf"^{name} (\S+)$", text, re.MULTILINE).group(1)))


def waited(served):
    """The seconds for which the feed holds a reader without new events."""
    began = time.monotonic()
    answer = httpx2.get(
        f"{served.http}{EVENTS}",
        params={"order": "asc", "kind": "card.retired", "wait": WAITING},
        headers=bearer(served.webs[0].seed["platformToken"]),
        timeout=TIMEOUT,
        trust_env=False,
    )
    assert answer.json()["events"] == []
    return time.monotonic() - began


def test_thousands_who_dawdle_hold_up_no_ordinary_request_and_are_ended(served):
    taken, listener = [], Listener(served)
    streams = (SLOW_READERS, following(served.webs[0].seed["readToken"]))
    with crowds(served, {**KINDS, FOLLOWERS: streams}) as came, ThreadPoolExecutor(2) as pool:
        reader, filled = pool.submit(waited, served), pool.submit(fill_log, served)
        began = time.monotonic()
        while time.monotonic() < began + ENDED_WITHIN or not filled.done():
            taken += ordinary(served, listener)
            for crowd in came.values():
                crowd.drip()
        filled.result()
        refused = [came[kind].answered(429) for kind in DRIPPING]
        readers = counted(served, "signals_live_readers")
        cut = counted(served, "signals_live_cut_readers_total")
        standing = {kind: crowd.standing() for kind, crowd in came.items()}
    assert readers == 1  # the listener
    assert cut  # nginx ended the others, whose data was in its own buffers
    assert WAITING <= reader.result() < WAITING + AT_MOST
    assert max(seconds for _, seconds in taken) < AT_MOST, sorted(taken, key=lambda t: -t[1])[:5]
    assert min(refused) >= SLOW_BODIES - OF_ONE_ADDRESS
    assert max(standing.pop(kind) for kind in DRIPPING) <= OF_ONE_ADDRESS
    assert standing == dict.fromkeys(standing, 0)

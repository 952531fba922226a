"""Thousands of slow clients and some ordinary requests, through nginx to every server.

nginx uses the files of ``deploy/`` with other timeouts: long ones, so that all slow clients are
there while ordinary requests are answered, or short ones, so that the slow clients are soon ended.
"""

import re
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx2
import pytest

from tests.client import EVENTS, HOOK, bearer, signed
from tests.drills.clients import Listener
from tests.drills.layout import connections, fronted, layout, needs_nginx, needs_postgresql
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
from tests.drills.stage import in_drills
from tests.server import free_port
from tests.signals.bodies import nox
from tests.signals.contract.test_relay import message
from tests.streams import wait_until

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


def timeouts(seconds):
    """Replacements in nginx's files. A default buffer hides slow readers."""
    return {
        "client_header_timeout 10s": f"client_header_timeout {seconds}s",
        "client_body_timeout 10s": f"client_body_timeout {seconds}s",
        "send_timeout 20s": f"send_timeout {seconds}s",
        "backlog=4096": "backlog=4096 sndbuf=16k",
    }


LONG, SHORT = 600, 1  # seconds
FEW = 20  # of each kind, to be ended
LARGE_EVENTS = 300  # of 1.5 KB of text: more than all buffers between the live server and a client
SOME_EVENTS = 40  # more than the kernel's buffers
METRICS_TOKEN = secrets.token_hex(32)
WAITING = 2  # seconds that the reader of the feed waits
ROUNDS = 5  # of ordinary requests
AT_MOST = 1.0  # seconds that an ordinary request takes
TIMEOUT = 60  # seconds

pytestmark = [
    pytest.mark.processes,
    in_drills,
    needs_nginx,
    needs_postgresql,
    pytest.mark.skipif(
        not allow_open_files(2 * (SLOW_READERS + sum(number for number, _ in KINDS.values()))),
        reason="the limit of open files is too low",
    ),
]


@pytest.fixture(scope="module")
def served():
    with layout(changed=timeouts(LONG), LIMIT_STREAMS="off", METRICS_TOKEN=METRICS_TOKEN) as served:
        yield served


def ordinary(served, listener):
    """The longest duration of a few requests in seconds, each on a new connection.

    The last one is that of a signal until its event has reached the listener.
    """
    bot, token = served.webs[0].seed["automation"], served.webs[0].seed["desks"][0]["deskToken"]
    body = message(bot).encode()
    requests = [
        ("GET", "/readyz", {}, b""),
        ("GET", "/api/v1/me", bearer(token), b""),
        ("POST", HOOK, signed(bot["secret"], body=body), body),
    ]
    took = []
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
        took.append(time.monotonic() - began)
    position = answer.json()["signal"]["position"]
    wait_until(lambda: listener.positions[-1:] >= [position], "The event does not come.")
    return max(*took, time.monotonic() - began)


@pytest.fixture(scope="module")
def listener(served):
    """A reader of a stream of the log."""
    listener = Listener(served.http, served.webs[0].seed["platformToken"])
    wait_until(lambda: listener.cursor, "The stream does not begin.")
    yield listener
    listener.stop()


def fill_log(served, events):
    """Writes so many large events."""
    card = {name: served.webs[0].seed["card"][name] for name in ("pair", "direction")}
    headers = bearer(served.webs[0].seed["platformToken"])
    with httpx2.Client(base_url=served.http, timeout=TIMEOUT, trust_env=False) as http:
        for _ in range(events):
            body = nox(mode="draft", rationale="\N{BLACK STAR}" * 500, **card)
            assert http.post(HOOK, json=body, headers=headers).status_code == 200


def counted(served, name):
    """The value of a metric of the live server."""
    url = f"{served.lives[0].base_url}/metrics"
    answer = httpx2.get(url, headers=bearer(METRICS_TOKEN), timeout=TIMEOUT, trust_env=False)
    return int(float(re.search(rf"^{name} (\S+)$", answer.text, re.MULTILINE).group(1)))


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


def followers(served, number):
    """Clients that ask for a stream of the log and read nothing of it."""
    return {FOLLOWERS: (number, following(served.webs[0].seed["readToken"]))}


def most_are_refused(crowd):
    """Whether all clients of a crowd are refused that nginx does not allow from one address."""
    return crowd.answered(429) >= len(crowd.clients) - OF_ONE_ADDRESS


def test_thousands_who_dawdle_hold_up_no_ordinary_request(served, listener):
    """All of them are still there when the requests have been answered."""
    kinds = {**KINDS, **followers(served, SLOW_READERS)}
    with crowds(served, kinds) as came, ThreadPoolExecutor(2) as pool:
        reader, filled = pool.submit(waited, served), pool.submit(fill_log, served, LARGE_EVENTS)
        for _ in range(ROUNDS):
            ordinary(served, listener)
            for crowd in came.values():
                crowd.drip()
        wait_until(lambda: ordinary(served, listener) < AT_MOST, "No request is fast.")
        filled.result()
        assert reader.result() >= WAITING
        wait_until(lambda: counted(served, "signals_live_cut_readers_total"), "Nobody is cut.")
        held = connections(served.port)
        standing = {kind: held[crowd.address] for kind, crowd in came.items()}
        for kind in DRIPPING:
            wait_until(partial(most_are_refused, came[kind]), "Too few are refused.")
    for kind in (*DRIPPING, FOLLOWERS):  # some are refused, and the live server has cut some
        del standing[kind]
    assert standing == {kind: KINDS[kind][0] for kind in standing}


def test_who_dawdles_is_ended(served, listener):
    """Also whom the live server does not cut, because what it wrote is in nginx's own buffers."""
    kinds = {kind: (FEW, begun) for kind, (_, begun) in KINDS.items() if kind not in DRIPPING}
    ports = free_port(), free_port()
    wait_until(lambda: counted(served, "signals_live_readers") == 1, "A reader is left.")
    with (
        fronted(*ports, served.webs, served.lives, timeouts(SHORT)) as ending,
        crowds(ending, {**kinds, **followers(served, FEW)}) as came,
    ):
        wait_until(lambda: counted(served, "signals_live_readers") == 1 + FEW, "No reader.")
        fill_log(served, SOME_EVENTS)

        def all_are_ended():
            came["headers"].drip()
            return not connections(ending.port)

        wait_until(all_are_ended, "Somebody is not ended.")
        wait_until(lambda: counted(served, "signals_live_readers") == 1, "A reader is counted.")
    ordinary(served, listener)

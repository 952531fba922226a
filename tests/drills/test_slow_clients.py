"""Thousands of slow clients and some ordinary requests, through nginx.

nginx uses the files of ``deploy/`` with shorter timeouts, so that the test takes less time.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.client import EVENTS, HOOK, bearer, signed
from tests.drills.layout import layout, needs_nginx, needs_postgresql
from tests.drills.slow_clients import BODY, HEADER, READING, STALLED, allow_open_files, crowds
from tests.signals.test_relay import message

SILENT, SLOW_HEADERS, SLOW_BODIES, STALLED_BODIES, SLOW_READERS = 2000, 500, 500, 100, 200
KINDS = {
    "silent": (SILENT, ""),
    "headers": (SLOW_HEADERS, HEADER),
    "bodies": (SLOW_BODIES, BODY),
    "stalled": (STALLED_BODIES, STALLED),
    "readers": (SLOW_READERS, READING),
}
OF_ONE_ADDRESS = 256  # concurrent requests that nginx allows
SHORTER = {
    "client_header_timeout 10s": "client_header_timeout 4s",
    "client_body_timeout 10s": "client_body_timeout 4s",
    "send_timeout 20s": "send_timeout 4s",
    "backlog=4096": "backlog=4096 sndbuf=16k",  # a default buffer hides slow readers
}
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
        not allow_open_files(2 * sum(number for number, _ in KINDS.values())),
        reason="the limit of open files is too low",
    ),
]


@pytest.fixture(scope="module")
def served():
    with layout(changed=SHORTER) as served:
        yield served


def ordinary(served):
    """The duration of a few requests in seconds, each on a new connection."""
    bot, token = served.webs[0].seed["automation"], served.webs[0].seed["desks"][0]["deskToken"]
    body = message(bot).encode()
    requests = [
        ("GET", "/readyz", {}, b""),
        ("GET", "/api/v1/me", bearer(token), b""),
        ("POST", HOOK, signed(bot["secret"], body=body), body),
    ]
    for method, path, headers, content in requests:
        began = time.monotonic()
        answer = httpx.request(
            method,
            f"{served.http}{path}",
            headers=headers,
            content=content,
            timeout=TIMEOUT,
            trust_env=False,
        )
        assert answer.status_code == 200, answer.text
        yield path, time.monotonic() - began


def waited(served):
    """The seconds for which the feed holds a reader without new events."""
    began = time.monotonic()
    answer = httpx.get(
        f"{served.http}{EVENTS}",
        params={"order": "asc", "kind": "card.retired", "wait": WAITING},
        headers=bearer(served.webs[0].seed["platformToken"]),
        timeout=TIMEOUT,
        trust_env=False,
    )
    assert answer.json()["events"] == []
    return time.monotonic() - began


def test_thousands_who_dawdle_hold_up_no_ordinary_request_and_are_ended(served):
    taken = []
    with crowds(served, KINDS) as came, ThreadPoolExecutor(1) as pool:
        reader = pool.submit(waited, served)
        began = time.monotonic()
        while time.monotonic() < began + ENDED_WITHIN:
            taken += ordinary(served)
            for crowd in came.values():
                crowd.drip()
        refused = came["bodies"].answered(429)
        standing = {kind: crowd.standing() for kind, crowd in came.items()}
    assert WAITING <= reader.result() < WAITING + AT_MOST
    assert max(seconds for _, seconds in taken) < AT_MOST, sorted(taken, key=lambda t: -t[1])[:5]
    assert refused >= SLOW_BODIES - OF_ONE_ADDRESS
    assert standing.pop("bodies") <= OF_ONE_ADDRESS
    assert standing == dict.fromkeys(standing, 0)

"""Exports behind nginx: a slow reader holds neither a thread nor the next export of its desk.

The file is larger than what sockets hold. nginx's buffers for its clients are small, because large
ones hide a slow reader.
"""

import socket
import threading
import time
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

from tests.bench.growth import connect
from tests.conformance.browser import Browser
from tests.conformance.client import Service
from tests.drills.layout import ADDRESS, UNLIMITED, layout, needs_nginx, needs_postgresql
from tests.drills.stage import in_drills

pytestmark = [
    pytest.mark.processes,
    pytest.mark.timeout(400),
    in_drills,
    needs_nginx,
    needs_postgresql,
]

CSV = "/activity.csv"
EVENTS, NONCE = 6000, 2000  # events, and the length of the nonce of each: 12 MB
LEAST = 8 * 2**20  # bytes
SLOWLY = 1024  # bytes that a slow reader takes at a time
PATIENCE = 100  # seconds
TIMEOUT = 60  # seconds
SMALL = {**UNLIMITED, "backlog=4096": "backlog=4096 sndbuf=16k"}
SETTINGS: Any = {
    "WEB_CONCURRENCY": "1",
    "THREADS": "8",
    "LIMIT_MINTING": "off",
    "PATIENCE": "on",
}
FILL = """
WITH head AS (SELECT position, at FROM events_head)
INSERT INTO events_event (position, kind, at, topic, content)
SELECT head.position + i, 'signal.filled', head.at, %(desk)s, jsonb_build_object(
    'data', jsonb_build_object(), 'signal', jsonb_build_object('nonce', repeat('x', %(nonce)s)))
FROM head, generate_series(1, %(events)s) AS i;
"""


@pytest.fixture(scope="module")
def served():
    with layout(changed=SMALL, **SETTINGS) as served:
        web = served.webs[0]
        desk = web.seed["desks"][0]["userId"]
        with connect(web) as database:
            database.execute(FILL, {"desk": desk, "nonce": NONCE, "events": EVENTS})
            database.execute("UPDATE events_head SET position = position + %s", [EVENTS])
        yield served


@pytest.fixture(scope="module")
def cookie(served):
    """The cookie of the session of the desk's owner."""
    with Service(served.http, served.webs[0].seed) as service, Browser(service) as browser:
        browser.sign_in(service.seed["user"])
        return browser.cookie


class SlowReader(threading.Thread):
    """A client that takes a little of its export again and again, until ``hurry`` is set."""

    def __init__(self, port, cookie):
        super().__init__(daemon=True)
        self.taken, self.answer, self.hurry = 0, b"", threading.Event()
        self._begun = threading.Event()
        self._client = socket.socket()
        self._client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._client.settimeout(TIMEOUT)
        self._client.connect((ADDRESS, port))
        lines = (
            f"GET {CSV} HTTP/1.1",
            f"Host: {ADDRESS}",
            f"Cookie: {cookie}",
            "Connection: close",
        )
        self._client.sendall("".join(f"{line}\r\n" for line in (*lines, "")).encode())
        self.start()
        assert self._begun.wait(TIMEOUT)
        assert self.answer.startswith(b"HTTP/1.1 200")

    def run(self):
        parts = []
        try:
            while part := self._client.recv(65536 if self.hurry.is_set() else SLOWLY):
                parts.append(part)
                self.taken += len(part)
                self.answer = self.answer or part
                self._begun.set()
                if not self.hurry.is_set():
                    self.hurry.wait(0.05)
        except OSError:
            pass  # the server ended the connection
        finally:
            self._begun.set()
            self.answer = b"".join(parts)
            self._client.close()

    def close(self):
        self._client.shutdown(socket.SHUT_RDWR)
        self.join(TIMEOUT)


@contextmanager
def slow_reader(port, cookie):
    reader = SlowReader(port, cookie)
    try:
        yield reader
    finally:
        if reader.is_alive():
            reader.close()


def asked(url, cookie):
    return httpx2.get(url, headers={"Cookie": cookie}, trust_env=False, timeout=TIMEOUT)


def exported(url, cookie):
    """The desk's next export, as soon as there may be one."""
    deadline = time.monotonic() + PATIENCE
    while (answer := asked(f"{url}{CSV}", cookie)).status_code == 503:
        assert time.monotonic() < deadline, answer.text
    assert answer.status_code == 200
    return answer.content


def content(answer):
    """The content of a chunked answer."""
    head, _, rest = answer.partition(b"\r\n\r\n")
    assert b"chunked" in head.lower()
    parts = []
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        parts.append(rest[:length])
        if length == 0:
            return b"".join(parts)
        rest = rest[length + 2 :]
    raise AssertionError("the file is not complete")


def test_behind_nginx_the_next_export_begins_while_a_slow_reader_still_reads(served, cookie):
    with slow_reader(served.port, cookie) as slow:
        file = exported(served.http, cookie)
        taken = slow.taken
        assert len(file) > LEAST
        assert slow.is_alive()
        assert taken < len(file) / 2
        slow.hurry.set()
        slow.join(TIMEOUT)
        assert content(slow.answer) == file


def test_while_an_export_is_made_no_process_makes_another_of_its_desk(served, cookie):
    """The slow reader reads from a web server itself, so that its export does not end."""
    one, other = served.webs
    with slow_reader(int(one.environment["PORT"]), cookie) as slow:
        for url in (one.base_url, other.base_url, served.http):
            refused = asked(f"{url}{CSV}", cookie)
            assert refused.status_code == 503
            assert int(refused.headers["Retry-After"]) > 0
            assert "An export of your account is being made" in refused.text
            assert asked(f"{url}/activity", cookie).status_code == 200
        assert slow.is_alive()
    assert len(exported(other.base_url, cookie)) > LEAST

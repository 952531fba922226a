"""The live server behind nginx passes the suites of framing and of errors that gunicorn passes.

The suite of slow clients is in ``test_slow_clients.py``. Left out is what never reaches the live
server: bytes without a path, which nginx refuses (``test_layout.py``); other methods than GET, and
the list, which gunicorn answers; probes and ``/metrics``.

Each request has an address of its own, because the service counts failures by address.
"""

import itertools
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.client import EVENTS
from tests.config.live.test_live import STREAM, asks_for_the_feed
from tests.config.live.test_live import said as content_of
from tests.config.server.test_framing import CHUNKED, GET, HOOK, REFUSED, SMUGGLED, statuses
from tests.drills.layout import (
    ADDRESS,
    UNLIMITED,
    client_at,
    fronted,
    needs_nginx,
    needs_postgresql,
)
from tests.drills.test_layout import LARGEST, SENDERS, logged, said
from tests.server import Server, free_port

pytestmark = [pytest.mark.processes, needs_nginx, needs_postgresql]

SENDER = (f"127.1.{number // 250}.{number % 250 + 1}" for number in itertools.count())
LINE = f"GET {EVENTS} HTTP/1.1\r\n"
ASKS = f"{LINE}Host: {ADDRESS}\r\nAccept: text/event-stream\r\n"
FRAMED = {
    what: f"{ASKS}{raw.removeprefix(begun)}"
    for what, raw in REFUSED.items()
    for begun in (HOOK, GET)
    if raw.startswith(begun)
}
# Requests of the feed that nginx does not send to the live server.
ELSEWHERE = {
    *("the head of a stream", "options", "another method"),
    *("a slash more", "another path", "a NUL", "it is alive", "metrics without the token"),
}


def asks_for_a_stream(token):
    """Requests for a stream that differ in one thing each: path and headers."""
    asks = {
        what: (path, headers)
        for what, (method, path, headers) in asks_for_the_feed(token).items()
        if what not in ELSEWHERE
    }
    pages = {"a page's": "/activity/stream", "the control area's": "/control/stream"}
    return {
        **asks,
        **{f"{what} stream without a session": (path, STREAM) for what, path in pages.items()},
    }


# --- Framing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", FRAMED)
def test_nothing_smuggled_behind_a_request_for_a_stream_is_answered(served, what):
    """Each request hides a GET that would be answered with 200."""
    answers = statuses(said(served, FRAMED[what], next(SENDER)))
    assert all(400 <= status < 500 for status in answers), answers


@pytest.mark.parametrize(
    "host",
    [
        f"Host: {ADDRESS}\r\nHost: elsewhere.example\r\n",
        f"Host: elsewhere.example\r\nHost: {ADDRESS}\r\n",
        f"Host: {ADDRESS}, elsewhere.example\r\n",
        f"Host: {ADDRESS}@elsewhere.example\r\n",
    ],
)
def test_two_hosts_are_none_of_ours(served, host):
    accept = "Accept: text/event-stream\r\nConnection: close\r\n\r\n"
    answer = said(served, f"{LINE}{host}{accept}", next(SENDER))
    assert statuses(answer) == [400]
    assert b"elsewhere" not in answer


def test_a_chunked_body_is_refused_and_nothing_behind_it_is_answered(served):
    raw = f"{ASKS}{CHUNKED}Connection: close\r\n\r\n0\r\n\r\n{SMUGGLED}"
    assert statuses(said(served, raw, next(SENDER))) == [411]


def test_two_requests_behind_each_other_are_two(served):
    raw = f"{ASKS}\r\n{ASKS}Connection: close\r\n\r\n"
    assert statuses(said(served, raw, next(SENDER))) == [401, 401]


def test_the_body_of_a_request_for_a_stream_is_no_request(served):
    token = served.webs[0].seed["readToken"]
    head = f"{ASKS}Authorization: Bearer {token}\r\nContent-Length: {len(SMUGGLED)}\r\n\r\n"
    answer = said(served, f"{head}{SMUGGLED}{SMUGGLED}", next(SENDER))
    assert statuses(answer) == [200]
    assert b"retry: " in answer


@pytest.mark.parametrize(("length", "status"), [(LARGEST, 401), (100_000, 413)])
def test_a_body_that_nobody_reads_breaks_no_request_of_others(served, length, status):
    """The live server closes such a connection, on which nginx still sends the body."""

    def both(sender):
        url = f"{served.http}{EVENTS}"
        with client_at(sender) as http:
            unread = http.request("GET", url, headers=STREAM, content=b"x" * length)
            return unread.status_code, http.get(url, headers=STREAM).status_code

    with ThreadPoolExecutor(SENDERS) as senders:
        answers = senders.map(both, itertools.islice(SENDER, 100))
        assert set(answers) == {(status, 401)}


# --- Errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", asks_for_a_stream(""))
def test_the_live_server_answers_through_nginx_what_gunicorn_answers(served, what):
    web, sender = served.webs[0], next(SENDER)
    path, headers = asks_for_a_stream(web.seed["readToken"])[what]
    with client_at(sender) as near, client_at(ADDRESS) as far:
        ours = near.get(f"{served.http}{path}", headers=headers)
        named = {**headers, "X-Forwarded-For": sender}
        theirs = far.get(f"{web.base_url}{path}", headers=named)
    assert content_of(ours) == content_of(theirs)
    assert web.seed["readToken"] not in str(ours.headers)
    web_of_nginx = logged(served, ours.headers["X-Request-Id"])["web"]
    assert web_of_nginx.endswith(f":{served.lives[0].environment['LIVE_PORT']}")


# --- Several live servers -------------------------------------------------------------------------

BEGUN = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: begun\n\n"


@contextmanager
def streaming_at(port, stack):
    """A server at the port until the block ends. Its streams stay open as long as the stack."""

    def accept():
        with suppress(OSError):
            while True:
                stack.enter_context(listener.accept()[0]).sendall(BEGUN)

    with socket.create_server((ADDRESS, port)) as listener:
        thread = threading.Thread(target=accept)
        thread.start()
        yield
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def opened(stack, served):
    """The first line of the answer to a request for a stream. The stream stays open."""
    client = stack.enter_context(socket.create_connection((ADDRESS, served.port), 60))
    client.sendall(f"{ASKS}\r\n".encode())
    return client.recv(4096).partition(b"\r\n")[0]


def test_a_live_server_that_was_down_takes_every_stream_when_another_one_stops():
    ports = [free_port(), free_port()]
    lives = tuple(Server("", {}, {"LIVE_PORT": str(port)}, Path()) for port in ports)
    one_process = UNLIMITED | {"worker_processes auto": "worker_processes 1"}
    with ExitStack() as stack:
        served = stack.enter_context(fronted(free_port(), free_port(), (), lives, one_process))
        with streaming_at(ports[1], stack):  # the first one is down
            answers = [opened(stack, served) for _ in range(2)]
            stack.enter_context(streaming_at(ports[0], stack))
        answers += [opened(stack, served) for _ in range(5)]
    assert answers == [b"HTTP/1.1 200 OK"] * 7

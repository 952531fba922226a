"""Bytes that mean one thing to a proxy and another to a server: each gets one answer, or none.

Spoken to gunicorn itself, and to the live server. No answer comes within the sockets' patience
would be a hang.
"""

import re
import socket

import httpx2
import pytest

from tests.server import Server

pytestmark = [pytest.mark.processes, pytest.mark.once]

TIMEOUT = 60  # seconds: gunicorn keeps a silent connection for longer
HOOK = "POST /api/hooks/signal HTTP/1.1\r\nHost: 127.0.0.1\r\n"
GET = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
# Were it taken for a request of its own, a second answer would come.
SMUGGLED = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
ENDED = f"0\r\n\r\n{SMUGGLED}"
CHUNKED = "Transfer-Encoding: chunked\r\n"

REFUSED = {
    "a length and chunks": f"{HOOK}Content-Length: 4\r\n{CHUNKED}\r\n{ENDED}",
    "chunks and a length": f"{HOOK}{CHUNKED}Content-Length: 4\r\n\r\n{ENDED}",
    "two lengths": f"{HOOK}Content-Length: 0\r\nContent-Length: 5\r\n\r\n{SMUGGLED}",
    "one length twice": f"{HOOK}Content-Length: 2\r\nContent-Length: 2\r\n\r\n{{}}{SMUGGLED}",
    "lengths in a list": f"{HOOK}Content-Length: 0, 5\r\n\r\n{SMUGGLED}",
    "a signed length": f"{HOOK}Content-Length: +5\r\n\r\n{SMUGGLED}",
    "a negative length": f"{HOOK}Content-Length: -1\r\n\r\n{SMUGGLED}",
    "a length in hex": f"{HOOK}Content-Length: 0x5\r\n\r\n{SMUGGLED}",
    "a length of other digits": f"{HOOK}Content-Length: ²\r\n\r\n{SMUGGLED}",
    "chunks twice": f"{HOOK}{CHUNKED}{CHUNKED}\r\n{ENDED}",
    "chunks and identity": f"{HOOK}Transfer-Encoding: chunked, identity\r\n\r\n{ENDED}",
    "chunks under another name": f"{HOOK}Transfer-Encoding: xchunked\r\n\r\n{ENDED}",
    "a chunk without a size": f"{HOOK}{CHUNKED}\r\nx\r\n{SMUGGLED}",
    "a chunk without an end": f"{HOOK}{CHUNKED}\r\n1\r\nabc\r\n{ENDED}",
    "a space before the colon": f"{HOOK}Transfer-Encoding : chunked\r\n\r\n{ENDED}",
    "a folded coding": f"{HOOK}Transfer-Encoding:\r\n chunked\r\n\r\n{ENDED}",
    "a NUL in a header": f"{HOOK}A: a\x00b\r\nContent-Length: 0\r\n\r\n",
    "a line feed alone": f"{HOOK}A: a\nContent-Length: 5\r\n\r\n{SMUGGLED}",
    "no method": "/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a method of nonsense": "G<T / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "another version": "GET / HTTP/3.0\r\nHost: 127.0.0.1\r\n\r\n",
    "a later protocol's greeting": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a greeting over TLS": "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
    "a long line": f"GET /{'a' * 8000} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a large header": f"{GET}A: {'a' * 20000}\r\n\r\n",
    "large headers together": GET + f"A: {'a' * 8000}\r\n" * 70 + "\r\n",
    "many headers": GET + "A: a\r\n" * 500 + "\r\n",
}


@pytest.fixture(params=["web", "live"])
def server(request) -> Server:
    return request.getfixturevalue(request.param)


def connected(server: Server) -> socket.socket:
    host, port = server.base_url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=TIMEOUT)


def said(server: Server, raw: str) -> bytes:
    """Returns everything received until the server closes the connection."""
    with connected(server) as client:
        try:
            client.sendall(raw.encode("latin-1"))
            return b"".join(iter(lambda: client.recv(65536), b""))
        except (ConnectionResetError, BrokenPipeError):
            return b""


def statuses(answers: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", answers)]


def is_served(server: Server) -> bool:
    return httpx2.get(f"{server.base_url}/healthz", trust_env=False).is_success


@pytest.mark.parametrize("what", REFUSED)
def test_what_could_be_read_in_two_ways_is_read_in_none(server, what):
    found = statuses(said(server, REFUSED[what]))
    assert len(found) <= 1
    assert all(400 <= status < 600 for status in found), found
    assert is_served(server)


@pytest.mark.parametrize(
    "host",
    [
        "Host: 127.0.0.1\r\nHost: elsewhere.example\r\n",
        "Host: elsewhere.example\r\nHost: 127.0.0.1\r\n",
        "Host: 127.0.0.1, elsewhere.example\r\n",
        "Host: 127.0.0.1@elsewhere.example\r\n",
    ],
)
def test_two_hosts_are_none_of_ours(server, host):
    answer = said(server, f"GET /api/v1 HTTP/1.1\r\n{host}Connection: close\r\n\r\n")
    assert statuses(answer) == [400]
    assert b"elsewhere" not in answer


@pytest.mark.parametrize("trailer", ["", "a\r\n"])
def test_a_chunked_body_is_refused_and_nothing_behind_it_is_answered(server, trailer):
    """nginx reads over a trailer that is none, and answers what is behind it by itself."""
    answer = said(server, f"{HOOK}{CHUNKED}\r\n0\r\n{trailer}\r\n{SMUGGLED}")
    assert statuses(answer) == [411]


def test_two_requests_behind_each_other_are_two(web):
    """The other side of it: what is well framed goes on being read."""
    last = f"{GET}Connection: close\r\n\r\n"
    assert statuses(said(web, f"{GET}\r\n{last}")) == [200, 200]


def test_a_connection_of_the_live_server_carries_one_request(live):
    assert statuses(said(live, f"{GET}\r\n{GET}\r\n")) == [200]

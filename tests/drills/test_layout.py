"""The production's layout: TLS, forged addresses, refusals, slow clients, a web that is killed."""

import json
import secrets
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPResponse

import httpx
import pytest

from tests.client import HOOK, bearer, signed
from tests.config.test_framing import REFUSED, statuses
from tests.drills.layout import (
    ADDRESS,
    NAME,
    layout,
    layout_without_webs,
    needs_nginx,
    needs_postgresql,
)
from tests.signals.test_relay import message

pytestmark = [pytest.mark.processes, pytest.mark.alone, needs_nginx, needs_postgresql]

PATIENCE = 10  # seconds
SLOW = 200  # connections
SENDERS, SIGNALS = 8, 400
KILL_AFTER = 100  # signals
FAILURES = 3  # a minute
MANY = 500  # requests at once


@pytest.fixture(scope="module")
def found():
    with layout(LIMIT_FAILURES=f"{FAILURES}/minute", METRICS_TOKEN=secrets.token_hex(32)) as found:
        yield found


@pytest.fixture(scope="module")
def alone():
    with layout_without_webs() as alone:
        yield alone


def said(found, raw):
    """All that comes back over plain HTTP until nginx closes, or has nothing more to say."""
    with socket.create_connection((ADDRESS, found.port), timeout=2) as client:
        answer = b""
        try:
            client.sendall(raw.encode("latin-1"))
            while part := client.recv(65536):
                answer += part
        except (ConnectionResetError, BrokenPipeError, TimeoutError):
            pass
        return answer


# --- TLS, names, addresses ------------------------------------------------------------------------


def handshake(found, name, version=None, host=None):
    """What comes back to who names one name in TLS, and the same or another as the Host."""
    context = ssl.create_default_context(cafile=found.folder / "tls" / "certificate.pem")
    if version:
        context.minimum_version = context.maximum_version = version
    with (
        socket.create_connection((ADDRESS, found.tls_port), timeout=PATIENCE) as line,
        context.wrap_socket(line, server_hostname=name) as client,
    ):
        request = f"GET /healthz HTTP/1.1\r\nHost: {host or name}\r\nConnection: close\r\n\r\n"
        client.sendall(request.encode())
        return b"".join(iter(lambda: client.recv(65536), b""))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_name_is_served_over_tls(found, version):
    answer = handshake(found, NAME, version)
    assert b" 200 OK" in answer
    assert b"nginx/" not in answer


def test_another_name_gets_no_certificate(found):
    with pytest.raises(ssl.SSLError):
        handshake(found, "elsewhere.example")


def test_what_a_client_says_of_its_address_is_not_believed(found):
    """This machine's failures are counted together, wherever it says it is."""
    processes = sum(int(web.environment["WEB_CONCURRENCY"]) for web in found.webs)
    codes = [
        httpx.get(
            f"{found.http}/api/v1/me",
            headers={**bearer("wrong"), "X-Forwarded-For": f"192.0.2.{number}"},
            trust_env=False,
        ).status_code
        for number in range(FAILURES * processes + 1)  # without Redis each process counts
    ]
    assert codes[-1] == 429


# --- What nginx refuses ---------------------------------------------------------------------------

OURS = f"Host: {ADDRESS}\r\n"
GET = f"GET /api/v1 HTTP/1.1\r\n{OURS}"
PUSH = f"POST {HOOK} HTTP/1.1\r\n{OURS}"
NONE_OF_OURS = (400, "host_invalid")
MALFORMED = (400, "malformed")
IN_NGINX_HANDS = {
    "TRACE": (f"TRACE /api/v1 HTTP/1.1\r\n{OURS}", (405, "method_not_allowed")),
    "CONNECT": (f"CONNECT /api/v1 HTTP/1.1\r\n{OURS}", (405, "method_not_allowed")),
    "another host": ("GET /api/v1 HTTP/1.1\r\nHost: elsewhere.example\r\n", NONE_OF_OURS),
    "no host": ("GET /api/v1 HTTP/1.1\r\n", NONE_OF_OURS),
    "no host in HTTP/1.0": ("GET /api/v1 HTTP/1.0\r\n", NONE_OF_OURS),
    "an empty host": ("GET /api/v1 HTTP/1.1\r\nHost:\r\n", NONE_OF_OURS),
    "a host that is none": ("GET /api/v1 HTTP/1.1\r\nHost: a b\r\n", NONE_OF_OURS),
    "a host of dots": ("GET /api/v1 HTTP/1.1\r\nHost: a..b\r\n", NONE_OF_OURS),
    "another host's address": (
        f"GET http://elsewhere.example/api/v1 HTTP/1.1\r\n{OURS}",
        NONE_OF_OURS,
    ),
    "two hosts": (f"{GET}{OURS}", MALFORMED),
    "a NUL in the path": (f"GET /api/v1/%00 HTTP/1.1\r\n{OURS}", (404, "not_found")),
    "half an escape": (f"POST /api/v1/%4 HTTP/1.1\r\n{OURS}", (404, "not_found")),
    "a chunked body": (f"{PUSH}Transfer-Encoding: chunked\r\n", (411, "length_required")),
    "a packed body": (f"{PUSH}Transfer-Encoding: gzip\r\n", (411, "length_required")),
    "two lengths": (f"{PUSH}Content-Length: 1\r\nContent-Length: 2\r\n", MALFORMED),
    "a length and chunks": (
        f"{PUSH}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
        MALFORMED,
    ),
    "a large body": (f"{PUSH}Content-Length: 200000\r\n", (413, "body_too_large")),
    "a large header": (f"{GET}A: {'a' * 9000}\r\n", MALFORMED),
    "a long line": (f"GET /{'a' * 9000} HTTP/1.1\r\n{OURS}", MALFORMED),
    "another version": (f"GET /api/v1 HTTP/3.0\r\n{OURS}", MALFORMED),
    "no HTTP": ("Good morning\r\n", MALFORMED),
}


def answered(found, head, port=None):
    """The status, the headers and the body that come back for the lines of a head."""
    with (
        socket.create_connection((ADDRESS, port or found.port), timeout=PATIENCE) as client,
        HTTPResponse(client) as answer,
    ):
        client.sendall(f"{head}\r\n".encode("latin-1"))
        answer.begin()
        return answer.status, answer.headers, answer.read()


def refused(status, headers, body):
    """The status and code of a problem that is whole as the contract's section 5 says."""
    problem = json.loads(body)
    assert headers["Content-Type"] == "application/problem+json"
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Request-Id"] == problem["requestId"]
    assert problem["status"] == status
    assert problem["type"].endswith(f"/problems/{problem['code']}")
    assert problem["title"]
    assert problem["detail"]
    assert b"elsewhere" not in body
    return status, problem["code"]


@pytest.mark.parametrize("what", IN_NGINX_HANDS)
def test_what_nginx_does_not_take_is_refused_as_the_contract_says(found, what):
    head, expected = IN_NGINX_HANDS[what]
    assert refused(*answered(found, head)) == expected


def test_a_method_that_nginx_does_not_know_hears_from_the_service_which_there_are(found):
    _, headers, _ = answered(found, IN_NGINX_HANDS["TRACE"][0])
    assert headers["Allow"] == "GET, HEAD, OPTIONS"


def test_plain_http_on_the_port_of_tls_is_told_so(found):
    assert refused(*answered(found, GET, found.tls_port)) == (403, "https_required")


def test_a_host_beside_our_name_in_tls_is_refused(found):
    answer = handshake(found, NAME, host="elsewhere.example")
    assert b" 400 Bad Request" in answer
    assert b'"code": "host_invalid"' not in answer  # a page, as everywhere but under /api/
    assert b"elsewhere" not in answer


def test_what_nginx_refuses_keeps_the_callers_request_id(found):
    _, headers, _ = answered(found, f"{GET}X-Request-Id: mine_1\r\nTransfer-Encoding: chunked\r\n")
    assert headers["X-Request-Id"] == "mine_1"


@pytest.mark.parametrize("path", ["/metrics", "/.refused", "/%00"])
def test_what_is_not_to_be_had_from_outside_is_not_found(found, path):
    token = found.webs[0].environment["METRICS_TOKEN"]
    head = f"GET {path} HTTP/1.1\r\n{OURS}Authorization: Bearer {token}\r\n"
    status, headers, body = answered(found, head)
    assert status == 404
    assert headers["Content-Type"].startswith("text/html")
    assert b"nginx" not in body


# --- Framing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", REFUSED)
def test_nothing_smuggled_behind_a_request_is_answered(found, what):
    """What hides behind each is a GET that would be answered with 200."""
    answers = statuses(said(found, REFUSED[what]))
    assert all(status >= 400 for status in answers), answers
    assert httpx.get(f"{found.http}/healthz", trust_env=False).is_success


@pytest.mark.parametrize("hosts", [(ADDRESS, "elsewhere.example"), ("elsewhere.example", ADDRESS)])
def test_two_hosts_are_none_of_ours(found, hosts):
    lines = "".join(f"Host: {host}\r\n" for host in hosts)
    answer = said(found, f"GET /healthz HTTP/1.1\r\n{lines}Connection: close\r\n\r\n")
    assert 200 not in statuses(answer)


@pytest.mark.parametrize(
    "begun",
    ["POST", f"POST {HOOK} HTTP/1.1\r\nHost: {ADDRESS}\r\nX-Slow: ", "body"],
    ids=["a line", "a header", "a body"],
)
def test_two_hundred_slow_clients_hold_up_nobody(found, begun):
    if begun == "body":
        begun = f"POST {HOOK} HTTP/1.1\r\nHost: {ADDRESS}\r\nContent-Length: 100\r\n\r\n{{"
    slow = [socket.create_connection((ADDRESS, found.port)) for _ in range(SLOW)]
    try:
        for client in slow:
            client.sendall(begun.encode())
        for _ in range(10):
            answer = httpx.get(f"{found.http}/readyz", trust_env=False, timeout=PATIENCE)
            assert answer.is_success
    finally:
        for client in slow:
            client.close()


# --- A web server that is killed ------------------------------------------------------------------


def push(found, http):
    """One signal, sent once: nginx alone repeats it. What came of it."""
    bot = found.webs[0].seed["automation"]
    body = message(bot, nonce=secrets.token_hex(16)).encode()
    answer = http.post(HOOK, content=body, headers=signed(bot["secret"], body=body))
    return answer.status_code, answer.json().get("identical", True)


def test_killing_a_web_server_under_load_loses_no_signal():
    with layout() as found:
        killed = []

        def send(number):
            if number == KILL_AFTER:
                killed.append(found.webs[0])
                found.kill(found.webs[0])
            return push(found, http)

        with (
            httpx.Client(base_url=found.http, trust_env=False, timeout=40) as http,
            ThreadPoolExecutor(SENDERS) as senders,
        ):
            outcomes = list(senders.map(send, range(SIGNALS)))
            filled = _filled(found, http)
        assert killed
        assert {status for status, _ in outcomes} <= {200, 409}, outcomes
        assert all(identical for _, identical in outcomes)
        assert filled == SIGNALS


def test_without_any_web_server_the_answer_says_to_come_again(alone):
    status, headers, body = answered(alone, GET)
    assert refused(status, headers, body) == (503, "unavailable")
    assert headers["Retry-After"] == "1"


def test_who_asks_too_often_is_told_to_wait(alone):
    """More at once than nginx lets one address ask."""
    with socket.create_connection((ADDRESS, alone.port), timeout=PATIENCE) as client:
        client.sendall(f"{GET}\r\n".encode() * MANY + f"{GET}Connection: close\r\n\r\n".encode())
        said = b"".join(iter(lambda: client.recv(65536), b""))
    last = said[said.rindex(b"HTTP/1.1 429") :]
    assert b"Retry-After: 1\r\n" in last
    assert b'"code":"rate_limited"' in last


def _filled(found, http):
    """How many fills stand in the log."""
    query = "/api/v1/events?kind=signal.filled&limit=1000"
    answer = http.get(query, headers=bearer(found.webs[0].seed["platformToken"]))
    return len(answer.json()["events"])

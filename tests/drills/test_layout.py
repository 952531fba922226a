"""The production's layout: TLS, forged addresses, framing, slow clients, a web that is killed."""

import secrets
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.client import HOOK, bearer, signed
from tests.config.test_framing import REFUSED, statuses
from tests.drills.layout import ADDRESS, NAME, layout, needs_nginx, needs_postgresql
from tests.signals.test_relay import message

pytestmark = [pytest.mark.processes, pytest.mark.alone, needs_nginx, needs_postgresql]

PATIENCE = 10  # seconds
SLOW = 200  # connections
SENDERS, SIGNALS = 8, 400
KILL_AFTER = 100  # signals
FAILURES = 3  # a minute


@pytest.fixture(scope="module")
def found():
    with layout(LIMIT_FAILURES=f"{FAILURES}/minute") as found:
        yield found


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


def handshake(found, name, version=None):
    context = ssl.create_default_context(cafile=found.folder / "tls" / "certificate.pem")
    if version:
        context.minimum_version = context.maximum_version = version
    with (
        socket.create_connection((ADDRESS, found.tls_port), timeout=PATIENCE) as line,
        context.wrap_socket(line, server_hostname=name) as client,
    ):
        request = f"GET /healthz HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n"
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


def test_the_numbers_are_not_to_be_had_from_outside(found):
    assert httpx.get(f"{found.http}/metrics", trust_env=False).status_code == 404


def test_what_nginx_refuses_looks_as_the_service_would(found):
    answer = httpx.post(f"{found.http}{HOOK}", content=b"x" * 200_000, trust_env=False)
    assert answer.status_code == 413
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["code"] == "body_too_large"
    assert answer.json()["requestId"] == answer.headers["X-Request-Id"]


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


def test_without_any_web_server_the_answer_says_to_come_again():
    with layout() as found:
        for web in found.webs:
            found.kill(web)
        answer = httpx.get(f"{found.http}/api/v1", trust_env=False, timeout=PATIENCE)
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert answer.headers["Retry-After"] == "1"


def _filled(found, http):
    """How many fills stand in the log."""
    query = "/api/v1/events?kind=signal.filled&limit=1000"
    answer = http.get(query, headers=bearer(found.webs[0].seed["platformToken"]))
    return len(answer.json()["events"])

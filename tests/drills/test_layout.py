"""The production layout: TLS, forged addresses, refusals, framing, a web server that is killed."""

import json
import re
import secrets
import socket
import ssl
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.client import HTTPResponse

import httpx2
import pytest

from tests.client import EVENTS, HOOK, bearer, signed
from tests.config.server.test_framing import REFUSED, statuses
from tests.drills.conftest import FAILURES
from tests.drills.layout import (
    ADDRESS,
    NAME,
    NO_TLS,
    client_at,
    fronted,
    layout,
    needs_nginx,
    needs_postgresql,
)
from tests.server import free_port
from tests.signals.contract.test_relay import message
from tokens.crypto import formats

pytestmark = [pytest.mark.processes, needs_nginx, needs_postgresql]

TIMEOUT = 60  # seconds
LARGEST = 64 * 1024  # bytes of a body
SENDERS, SIGNALS = 8, 400
CROWD = 24  # readers of lists
KILL_AFTER = 100  # signals
MANY = 500  # requests at once


def said(served, raw, sender=ADDRESS):
    """Sends raw bytes over HTTP. Returns everything that nginx answers until it closes.

    Where nobody asked it to close, an answer is followed by two silent seconds at most. ``sender``
    is the client's address.
    """
    with socket.create_connection((ADDRESS, served.port), TIMEOUT, (sender, 0)) as client:
        answer = b""
        try:
            client.sendall(raw.encode("latin-1"))
            while part := client.recv(65536):
                answer += part
                client.settimeout(TIMEOUT if "Connection: close" in raw else 2)
        except (ConnectionResetError, BrokenPipeError, TimeoutError):
            pass
        return answer


# --- TLS, names, addresses ------------------------------------------------------------------------


def handshake(served, name, version=None, host=None):
    """The answer to a client that names ``name`` in TLS, and ``host`` or the same in Host."""
    context = ssl.create_default_context(cafile=served.folder / "tls" / "certificate.pem")
    if version:
        context.minimum_version = context.maximum_version = version
    with (
        socket.create_connection((ADDRESS, served.tls_port), timeout=TIMEOUT) as line,
        context.wrap_socket(line, server_hostname=name) as client,
    ):
        request = f"GET /healthz HTTP/1.1\r\nHost: {host or name}\r\nConnection: close\r\n\r\n"
        client.sendall(request.encode())
        return b"".join(iter(lambda: client.recv(65536), b""))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_name_is_served_over_tls(served, version):
    answer = handshake(served, NAME, version)
    assert b" 200 OK" in answer
    assert b"nginx/" not in answer


def test_another_name_gets_no_certificate(served):
    with pytest.raises(ssl.SSLError):
        handshake(served, "elsewhere.example")


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_what_a_client_says_of_its_address_is_not_believed(served, accept):
    """The failures of one address are counted together, whatever X-Forwarded-For says."""
    processes = sum(int(web.environment["WEB_CONCURRENCY"]) for web in served.webs)
    with client_at(f"127.2.0.{len(accept)}") as http:
        codes = [
            http.get(
                f"{served.http}{EVENTS}",
                headers={
                    **bearer("wrong"),
                    "Accept": accept,
                    "X-Forwarded-For": f"192.0.2.{number}",
                },
            ).status_code
            for number in range(FAILURES * processes + 1)  # without Redis each process counts
        ]
    assert codes[0] == 401
    assert 429 in codes


# --- What nginx refuses ---------------------------------------------------------------------------

OURS = f"Host: {ADDRESS}\r\n"
GET = f"GET /api/v1 HTTP/1.1\r\n{OURS}"
GET_EVENTS = f"GET /api/v1/events HTTP/1.1\r\n{OURS}"
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


def answered(served, head, port=None):
    """Sends the lines of a request head. Returns the status, the headers and the body."""
    with (
        socket.create_connection((ADDRESS, port or served.port), timeout=TIMEOUT) as client,
        HTTPResponse(client) as answer,
    ):
        client.sendall(f"{head}\r\n".encode("latin-1"))
        answer.begin()
        return answer.status, answer.headers, answer.read()


def refused(status, headers, body):
    """Checks that a problem is complete (contract, section 5). Returns its status and code."""
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
def test_what_nginx_does_not_take_is_refused_as_the_contract_says(served, what):
    head, expected = IN_NGINX_HANDS[what]
    assert refused(*answered(served, head)) == expected


def test_a_method_that_nginx_does_not_know_hears_from_the_service_which_there_are(served):
    _, headers, _ = answered(served, IN_NGINX_HANDS["TRACE"][0])
    assert headers["Allow"] == "GET, HEAD, OPTIONS"


def test_plain_http_on_the_port_of_tls_is_told_so(served):
    assert refused(*answered(served, GET, served.tls_port)) == (403, "https_required")


def test_a_host_beside_our_name_in_tls_is_refused(served):
    answer = handshake(served, NAME, host="elsewhere.example")
    assert b" 400 Bad Request" in answer
    assert b'"code": "host_invalid"' not in answer  # a page, as everywhere but under /api/
    assert b"elsewhere" not in answer


@pytest.mark.parametrize("more", ["", "Transfer-Encoding: chunked\r\n"])
@pytest.mark.parametrize(
    "given", ["mine_1", "order_svc_1", "whsec_1", f"svc_desk_{'0' * 48}", f"whsec_{'0' * 39}"]
)
def test_what_nginx_refuses_or_passes_on_keeps_the_callers_request_id(served, given, more):
    _, headers, _ = answered(served, f"{GET}X-Request-Id: {given}\r\n{more}")
    assert headers["X-Request-Id"] == given


@pytest.mark.parametrize("path", ["/api/v1", EVENTS, "/static/css/none.css"])
@pytest.mark.parametrize("more", ["", "Transfer-Encoding: chunked\r\n"])
@pytest.mark.parametrize("prefix", ["svc_desk_", "svc_plat_", "svc_sign_", "whsec_"])
def test_no_answer_of_nginx_repeats_a_credential_as_the_request_id(served, path, more, prefix):
    given = webhook_secret() if prefix == formats.WEBHOOK_SECRET else formats.new(prefix)
    head = f"GET {path} HTTP/1.1\r\n{OURS}X-Request-Id: {given}\r\n{more}"
    _, headers, body = answered(served, head)
    assert len(headers["X-Request-Id"]) == 32
    assert given.encode() not in body


def webhook_secret():
    """A secret that would do as a request's id: without ``+`` and ``/``."""
    made = (formats.new_webhook_secret() for _ in iter(int, 1))
    return next(secret for secret in made if secret.replace("_", "").isalnum())


@pytest.mark.parametrize("path", ["/metrics", "/.refused", "/.stream", "/%00"])
def test_what_is_not_to_be_had_from_outside_is_not_found(served, path):
    token = served.webs[0].environment["METRICS_TOKEN"]
    head = f"GET {path} HTTP/1.1\r\n{OURS}Authorization: Bearer {token}\r\n"
    status, headers, body = answered(served, head)
    assert status == 404
    assert headers["Content-Type"].startswith("text/html")
    assert b"nginx" not in body


# --- Static files, which nginx keeps --------------------------------------------------------------


def static_file(served):
    """The path of a static file as a page names it."""
    page = httpx2.get(f"{served.http}/", trust_env=False).text
    return re.search(r'href="(/static/[^"]+\.css)"', page).group(1)


def test_a_static_file_that_nginx_keeps_is_the_services_answer_with_an_id_of_its_own(served):
    path = static_file(served)
    first, second = (httpx2.get(f"{served.http}{path}", trust_env=False) for _ in range(2))
    straight = httpx2.get(f"{served.webs[0].base_url}{path}", trust_env=False)
    assert first.content == second.content == straight.content
    assert first.headers["X-Request-Id"] != second.headers["X-Request-Id"]
    stable = {name: second.headers[name] for name in second.headers if name not in OF_THE_MOMENT}
    assert stable == {name: straight.headers[name] for name in stable}
    again = {"If-None-Match": first.headers["ETag"]}
    assert httpx2.get(f"{served.http}{path}", headers=again, trust_env=False).status_code == 304


OF_THE_MOMENT = {"date", "server", "connection", "x-request-id"}


def test_no_other_host_path_or_method_gets_or_changes_what_nginx_keeps(served):
    path = static_file(served)
    kept = httpx2.get(f"{served.http}{path}", trust_env=False)
    for head in (
        f"GET {path} HTTP/1.1\r\nHost: elsewhere.example\r\n",
        f"GET /api/../{path} HTTP/1.1\r\n{OURS}",
        f"GET /{path} HTTP/1.1\r\n{OURS}",
        f"GET {path}%20 HTTP/1.1\r\n{OURS}",
        f"DELETE {path} HTTP/1.1\r\n{OURS}",
        f"GET {path} HTTP/1.1\r\n{OURS}Transfer-Encoding: chunked\r\n",
    ):
        assert answered(served, head)[0] >= 400, head
    assert httpx2.get(f"{served.http}{path}", trust_env=False).content == kept.content


# --- Framing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", REFUSED)
def test_nothing_smuggled_behind_a_request_is_answered(served, what):
    """Each request hides a GET that would be answered with 200."""
    answers = statuses(said(served, REFUSED[what]))
    assert all(status >= 400 for status in answers), answers
    assert httpx2.get(f"{served.http}/healthz", trust_env=False).is_success


@pytest.mark.parametrize(
    ("path", "length", "status"),
    [
        (HOOK, LARGEST, 401),
        (HOOK, 100_000, 413),
        (HOOK, 5_000_000, 413),
        ("/nowhere", 100_000, 404),
    ],
)
def test_a_body_that_nobody_reads_breaks_no_request_of_others(served, path, length, status):
    """gunicorn closes such a connection, on which nginx would send another client's request."""

    def both(_):
        with httpx2.Client(
            base_url=served.http, trust_env=False, timeout=TIMEOUT, verify=NO_TLS
        ) as http:
            unread = http.post(path, content=b"x" * length)
            return unread.status_code, http.post("/api/v1/tokens").status_code

    with ThreadPoolExecutor(SENDERS) as senders:
        assert set(senders.map(both, range(100))) == {(status, 403)}


@pytest.mark.parametrize("hosts", [(ADDRESS, "elsewhere.example"), ("elsewhere.example", ADDRESS)])
def test_two_hosts_are_none_of_ours(served, hosts):
    lines = "".join(f"Host: {host}\r\n" for host in hosts)
    answer = said(served, f"GET /healthz HTTP/1.1\r\n{lines}Connection: close\r\n\r\n")
    assert 200 not in statuses(answer)


# --- Streams and HTTP/2 ---------------------------------------------------------------------------


def logged(served, request):
    """The line of nginx's log with this request's id, as soon as it is written."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        lines = (served.folder / "access.log").read_text().splitlines()
        for line in map(json.loads, lines):
            if line["request"] == request:
                return line
    raise AssertionError(f"nginx logged no request {request}")


@contextmanager
def curl(served, path, *options, accept="text/event-stream"):
    """curl over HTTP/2. Yields the lines of its answer as they come, the head included."""
    token = served.webs[0].seed["platformToken"]
    command = ["curl", "--silent", "--no-buffer", "--include", "--http2", *options]
    command += ["--cacert", str(served.folder / "tls" / "certificate.pem")]
    command += ["--header", f"Accept: {accept}", "--header", f"Authorization: Bearer {token}"]
    with subprocess.Popen(
        [*command, f"{served.https}{path}"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process.stdout
        finally:
            process.terminate()


def test_a_stream_reaches_the_client_at_once_over_http_2(served):
    with (
        httpx2.Client(base_url=served.http, trust_env=False, timeout=TIMEOUT) as http,
        curl(served, "/api/v1/events") as lines,
    ):
        assert lines.readline() == "HTTP/2 200 \n"
        assert any(line.startswith("retry: ") for line in lines)
        assert push(served, http)[0] == 200
        assert "event: signal.filled\n" in lines


@pytest.mark.parametrize(
    ("path", "accept", "is_live"),
    [
        ("/api/v1/events", "text/event-stream", True),
        ("/api/v1/events", "Text/Event-Stream", True),
        ("/api/v1/events", "text/event-stream, application/json", False),
        ("/api/v1/events", "text/event-stream;q=0, application/json", False),
        ("/api/v1/events", "application/json;x=text/event-stream", False),
        ("/activity/stream", "text/event-stream", True),
        ("/control/stream", "text/event-stream", True),
        ("/api/v1/events", "application/json", False),
        ("/activity", "text/html", False),
    ],
)
def test_only_streams_are_asked_of_the_live_server(served, path, accept, is_live):
    with curl(served, path, accept=accept) as lines:
        name = next(line for line in lines if line.startswith("x-request-id: "))
    port = logged(served, name.split()[1])["web"].rpartition(":")[2]
    assert (port == served.lives[0].environment["LIVE_PORT"]) == is_live


STREAM, JSON = "text/event-stream", "application/json"


@pytest.mark.parametrize("accepts", [(STREAM, JSON), (JSON, STREAM), (STREAM, f"{STREAM};q=0")])
def test_of_several_accept_headers_the_service_gets_what_nginx_decided_by(served, accepts):
    """nginx before 1.23 reads the first, and later versions all of them as one."""
    token = served.webs[0].seed["readToken"]
    head = GET_EVENTS + "".join(f"Accept: {accept}\r\n" for accept in accepts)
    head += f"Authorization: Bearer {token}\r\nConnection: close\r\n"
    with socket.create_connection((ADDRESS, served.port), timeout=TIMEOUT) as client:
        client.sendall(f"{head}\r\n".encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += client.recv(65536)
    answer = answer.lower()
    request = re.search(rb"^x-request-id: (\S+)\r$", answer, re.M).group(1).decode()
    live = f":{served.lives[0].environment['LIVE_PORT']}"
    is_live = logged(served, request)["web"].endswith(live)
    is_stream = b"content-type: text/event-stream" in answer
    assert answer.startswith(b"http/1.1 200")
    assert is_stream or not is_live


def test_the_lists_of_one_token_never_reach_the_threads_that_let_readers_in(served):
    """Other streams begin meanwhile, as many as there are desks."""
    sly, *others = (desk["deskToken"] for desk in served.webs[0].seed["desks"])
    accepts = [f"{STREAM};q=0, {JSON}", f"{JSON}, {STREAM};q=0.1", f"*/*, {STREAM};q=0.001"]
    with (
        ThreadPoolExecutor(CROWD) as crowd,
        httpx2.Client(
            base_url=served.http,
            trust_env=False,
            timeout=TIMEOUT,
            limits=httpx2.Limits(max_connections=CROWD),
        ) as http,
        ExitStack() as streams,
    ):
        lists = [
            crowd.submit(http.get, f"{EVENTS}?limit=1000", headers={**bearer(sly), "Accept": each})
            for each in accepts * CROWD
        ]
        for token in others:
            headers = {**bearer(token), "Accept": STREAM}
            url = f"{served.http}{EVENTS}"
            stream = streams.enter_context(
                httpx2.stream("GET", url, headers=headers, trust_env=False, timeout=TIMEOUT)
            )
            assert stream.status_code == 200
        answers = [each.result() for each in lists]
    assert {answer.status_code for answer in answers} == {200, 429}  # one at a time
    live = f":{served.lives[0].environment['LIVE_PORT']}"
    for answer in answers:
        assert not logged(served, answer.headers["X-Request-Id"])["web"].endswith(live)


def test_a_large_body_without_a_length_is_too_large(served):
    body = served.folder / "body"
    body.write_bytes(b"x" * (LARGEST + 1))
    unknown = ("--data-binary", f"@{body}", "--header", "Content-Length:")
    with curl(served, HOOK, *unknown, accept="*/*") as lines:
        said = lines.read()
    assert said.startswith("HTTP/2 413")
    assert '"code": "body_too_large"' in said or '"code":"body_too_large"' in said
    for _ in served.webs:  # the next request to the same web server is answered as ever
        assert httpx2.get(f"{served.http}/healthz", trust_env=False).is_success


def test_without_the_live_server_a_stream_is_refused_for_now(alone):
    status, headers, body = answered(alone, f"{GET_EVENTS}Accept: text/event-stream\r\n")
    assert refused(status, headers, body) == (503, "unavailable")
    assert headers["Retry-After"] == "1"


# --- A web server that is killed ------------------------------------------------------------------


def push(served, http):
    """Sends one signal. Returns the status and ``identical``.

    nginx repeats it at the other server. The client repeats it only if its answer has begun:
    whoever is killed between the head and the body of an answer leaves nginx nothing else to do.
    """
    bot = served.webs[0].seed["automation"]
    body = message(bot, nonce=secrets.token_hex(16)).encode()
    headers = signed(bot["secret"], body=body)
    try:
        answer = http.post(HOOK, content=body, headers=headers)
    except httpx2.RemoteProtocolError:
        answer = http.post(HOOK, content=body, headers=headers)
    return answer.status_code, answer.json().get("identical", True)


def test_killing_a_web_server_under_load_loses_no_signal():
    with layout(WEB_CONCURRENCY="1", PATIENCE="on") as served:
        killed = []

        def send(number):
            if number == KILL_AFTER:
                killed.append(served.webs[0])
                served.kill(served.webs[0])
            return push(served, http)

        with (
            httpx2.Client(base_url=served.http, trust_env=False, timeout=TIMEOUT) as http,
            ThreadPoolExecutor(SENDERS) as senders,
        ):
            outcomes = list(senders.map(send, range(SIGNALS)))
            filled = _filled(served, http)
        assert killed
        assert {status for status, _ in outcomes} <= {200, 409}, outcomes
        assert all(identical for _, identical in outcomes)
        assert filled == SIGNALS


def test_without_any_web_server_the_answer_says_to_come_again(alone):
    status, headers, body = answered(alone, GET)
    assert refused(status, headers, body) == (503, "unavailable")
    assert headers["Retry-After"] == "1"


def test_who_asks_too_often_is_told_to_wait():
    """More requests at once than nginx allows one address, however long a busy machine takes."""
    with (
        fronted(free_port(), free_port(), (), (), {"rate=200r/s": "rate=1r/s"}) as served,
        socket.create_connection((ADDRESS, served.port), timeout=TIMEOUT) as client,
    ):
        client.sendall(f"{GET}\r\n".encode() * MANY + f"{GET}Connection: close\r\n\r\n".encode())
        said = b"".join(iter(lambda: client.recv(65536), b""))
    last = said[said.rindex(b"HTTP/1.1 429") :]
    assert b"Retry-After: 1\r\n" in last
    assert b'"code":"rate_limited"' in last


def _filled(served, http):
    """How many fills are in the log."""
    query = "/api/v1/events?kind=signal.filled&limit=1000"
    answer = http.get(query, headers=bearer(served.webs[0].seed["platformToken"]))
    return len(answer.json()["events"])

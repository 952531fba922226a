"""The live server answers as gunicorn does, serves the feed alone, and ends streams at a stop."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import httpx2
import pytest

from config.environment import ROOT
from config.live import server
from config.live.served_paths import respond
from config.server.request_heads import environ_of
from events.live.streams import Reader
from tests.client import EVENTS, bearer
from tests.config.server.test_framing import connected
from tests.config.server.test_gunicorn import EVERYWHERE, NOT_REQUESTS, REFUSED, SECRET, exchange
from tests.config.test_settings import KEYS, environment
from tests.conformance.client import Service
from tests.server import ADDRESS, METRICS_TOKEN, Server, free_port, serving_live
from tokens.crypto import formats

pytestmark = [pytest.mark.processes, pytest.mark.once]

STREAM = {"Accept": "text/event-stream"}
# Names of headers that a server adds by itself, or that differ from request to request.
OF_THE_SERVER = {"connection", "content-length", "date", "server", "transfer-encoding"}
OF_THE_REQUEST = {"x-request-id"}
ENDED_WITHIN = 5  # seconds (contract, section 4, events)


def asked(server: Server, path: str, method: str = "GET", **headers: str) -> httpx2.Response:
    return httpx2.request(
        method, f"{server.base_url}{path}", headers=headers, trust_env=False, timeout=60
    )


def said(answer: httpx2.Response) -> tuple[int, str, dict[str, str]]:
    """What an answer says: without the request's id, and without what servers add."""
    left_out = OF_THE_SERVER | OF_THE_REQUEST
    headers = {name: value for name, value in answer.headers.items() if name not in left_out}
    request_id = answer.headers["X-Request-Id"]
    return answer.status_code, answer.text.replace(request_id, "the id"), headers


def asks_for_the_feed(token: str) -> dict[str, tuple[str, str, dict[str, str]]]:
    """Requests of the feed that differ in one thing each: method, path and headers."""
    reader = {**bearer(token), **STREAM}
    return {
        "the head of a stream": ("HEAD", EVENTS, reader),
        "options": ("OPTIONS", EVENTS, {}),
        "another method": ("PUT", EVENTS, reader),
        "no credential": ("GET", EVENTS, STREAM),
        "another token": ("GET", EVENTS, {**STREAM, **bearer(token[:-1])}),
        "another scheme": ("GET", EVENTS, {**STREAM, "Authorization": "Basic eDp5"}),
        "an unknown parameter": ("GET", f"{EVENTS}?what=1", reader),
        "a parameter of lists": ("GET", f"{EVENTS}?order=desc", reader),
        "no cursor": ("GET", f"{EVENTS}?after=abc", reader),
        "no position": ("GET", EVENTS, {**reader, "Last-Event-ID": "abc"}),
        "another host": ("GET", EVENTS, {**reader, "Host": "elsewhere.example"}),
        "a slash more": ("GET", f"{EVENTS}/", reader),
        "another path": ("GET", "/api/v1/none", reader),
        "a NUL": ("GET", f"{EVENTS}%00", reader),
        "an id of its own": ("GET", EVENTS, {**STREAM, "X-Request-Id": "mine"}),
        "a credential as the id": ("GET", EVENTS, {**STREAM, "X-Request-Id": token}),
        "it is alive": ("GET", "/healthz", {}),
        "metrics without the token": ("GET", "/metrics", {}),
    }


@pytest.mark.parametrize("what", asks_for_the_feed(""))
def test_it_answers_what_gunicorn_answers(web, live, what):
    method, path, headers = asks_for_the_feed(web.seed["readToken"])[what]
    theirs, ours = asked(web, path, method, **headers), asked(live, path, method, **headers)
    assert said(ours) == said(theirs)
    wanted = headers.get("X-Request-Id") == "mine"
    assert (ours.headers["X-Request-Id"] == "mine") == wanted
    assert web.seed["readToken"] not in str(ours.headers)


@pytest.mark.parametrize(
    "path", ["/api/v1", "/api/v1/desks", "/api/hooks/signal", "/", "/accounts/login/", "/control/"]
)
def test_it_serves_nothing_else(web, live, path):
    assert asked(live, path, **bearer(web.seed["platformToken"])).status_code == 404


def test_a_stream_begins_with_gunicorns_headers_and_ends_with_its_connection(web, live):
    headers = {**bearer(web.seed["readToken"]), **STREAM}
    with ExitStack() as open_streams:
        theirs, ours = (
            open_streams.enter_context(
                httpx2.stream("GET", f"{server.base_url}{EVENTS}", headers=headers, trust_env=False)
            )
            for server in (web, live)
        )
        found = [
            {name: text for name, text in answer.headers.items() if name not in OF_THE_SERVER}
            for answer in (theirs, ours)
        ]
        assert len({answer.pop("x-request-id") for answer in found}) == 2
        assert found[0] == found[1]
        assert ours.headers["connection"] == "close"
        assert "transfer-encoding" not in ours.headers


def test_without_a_host_it_is_asked_at_its_own_address_as_gunicorn_is(web, live):
    for each in (web, live):
        assert b" 200 OK\r\n" in exchange(each, b"GET /healthz HTTP/1.0\r\n")


def test_probes_and_metrics_say_how_it_is(live):
    assert asked(live, "/readyz").json()["ready"]
    page = asked(live, "/metrics", **bearer(METRICS_TOKEN)).text
    names = {line.split("{")[0].split()[0] for line in page.splitlines() if line[0] != "#"}
    assert {
        "signals_live_readers",
        "signals_live_topics",
        "signals_live_cut_readers_total",
    } <= names
    assert {"signals_live_lag_seconds_count", "signals_live_written_bytes_total"} <= names


# --- Lists ----------------------------------------------------------------------------------------

NO_STREAM = ["*/*", "application/json", "text/event-stream;q=0, application/json", "text/html"]
LIST = {"Accept": NO_STREAM[2]}
HERE = f"Host: {ADDRESS}"
BEFORE = {  # the lines of a request, without its Accept
    "host_invalid": (f"GET {EVENTS} HTTP/1.1", "Host: elsewhere.example"),
    "not_found": (f"GET {EVENTS}/ HTTP/1.1", HERE),
    "method_not_allowed": (f"PUT {EVENTS} HTTP/1.1", HERE),
    "length_required": (f"GET {EVENTS} HTTP/1.1", HERE, "Transfer-Encoding: chunked"),
    "body_too_large": (f"GET {EVENTS} HTTP/1.1", HERE, "Content-Length: 65537"),
}


@pytest.mark.parametrize("accept", NO_STREAM)
@pytest.mark.parametrize("query", ["limit=1000", "wait=25", "limit=x"])
@pytest.mark.parametrize("kind", ["a token", "no token"])
def test_a_list_is_refused_before_a_credential_is_looked_at(web, live, accept, query, kind):
    presented = bearer(web.seed["platformToken"]) if kind == "a token" else {}
    answer = asked(live, f"{EVENTS}?{query}", **presented, Accept=accept)
    assert (answer.status_code, answer.json()["code"]) == (406, "not_acceptable")


@pytest.mark.parametrize("code", BEFORE)
def test_what_the_contract_has_before_it_is_told_first(live, code):
    lines = (*BEFORE[code], f"Accept: {LIST['Accept']}", "")
    answer = exchange(live, "\r\n".join(lines).encode())
    assert f'"code": "{code}"'.encode() in answer


@pytest.mark.django_db
def test_a_list_is_refused_before_any_query(django_assert_num_queries):
    token = formats.new(formats.DESK_TOKEN)
    head = (
        f"GET {EVENTS}?limit=1000 HTTP/1.1\r\nHost: testserver\r\n"
        f"Accept: {LIST['Accept']}\r\nAuthorization: Bearer {token}\r\n\r\n"
    )
    asked = environ_of(head.encode(), (ADDRESS, 1), (ADDRESS, 2))
    with django_assert_num_queries(0):
        refused = respond(asked, new_reader=Reader)
    assert refused.head.startswith(b"HTTP/1.1 406 ")
    assert json.loads(refused.body)["code"] == "not_acceptable"
    assert refused.stream is None


@pytest.mark.parametrize("what", NOT_REQUESTS)
def test_what_is_not_a_request_is_answered_as_gunicorn_does_and_repeated_nowhere(live, what):
    head, status = NOT_REQUESTS[what]
    answer = exchange(live, head.encode())
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert SECRET.encode() not in answer
    assert SECRET not in live.log.read_text()


def test_a_body_is_not_read_and_its_connection_is_closed(web, live):
    token = web.seed["readToken"]
    smuggled = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    head = (
        f"GET {EVENTS}?limit=1 HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Length: {len(smuggled)}\r\n\r\n"
    )
    with connected(live) as client:
        client.sendall(head.encode() + smuggled + smuggled)
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    assert answer.count(b"HTTP/1.1 406") == 1
    assert b"alive" not in answer


def test_the_conformance_suite_finds_the_streams_that_the_contract_describes(web, live):
    suite = "tests/conformance"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-n0", "-q", "-p", "no:randomly", "-c", os.devnull),
            *("--rootdir", suite, "--confcutdir", suite, f"{suite}/test_04_streams.py"),
        ],
        cwd=ROOT,
        env={
            "PATH": os.environ["PATH"],
            "BASE_URL": web.base_url,
            "LIVE_URL": live.base_url,
            "SEED_JSON": json.dumps(web.seed),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


# --- Start and stop -------------------------------------------------------------------------------


def run(**settings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "config.live"]
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment(**KEYS, LIVE_PORT=str(free_port()), **settings),
        capture_output=True,
        text=True,
    )


def test_it_listens_for_others_behind_a_proxy_alone():
    refused = run(HOST=EVERYWHERE)
    assert (refused.returncode, refused.stderr) == (1, REFUSED)


def test_a_port_in_use_is_named(live):
    port = live.environment["LIVE_PORT"]
    command = [sys.executable, "-m", "config.live"]
    done = subprocess.run(command, cwd=ROOT, env=live.environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.endswith(
        f"It cannot listen at 127.0.0.1, port {port}: Address already in use.\n"
    )


# A server whose database never answers.
HANGING = """
import gc, sys, time
import django
django.setup()
from config.live import __main__, connection
def respond(*_):
    print("Answering", gc.isenabled() and gc.get_freeze_count() > 0, file=sys.stderr, flush=True)
    time.sleep(900)
connection.respond = respond
__main__.main()
"""


@contextmanager
def started(script: str, live: Server) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A live server with its port, which such a script starts beside the other one."""
    port = free_port()
    given = {**live.environment, "LIVE_PORT": str(port)}
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, env=given, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            read_until("Started server", server)
            yield server, port
        finally:
            server.kill()


def read_until(text: str, server: subprocess.Popen[str]) -> str:
    """The line with this text, as soon as the server prints it."""
    assert server.stderr
    while text not in (line := server.stderr.readline()):
        assert server.poll() is None
    return line


def test_a_stop_does_not_wait_for_a_database_that_hangs(live):
    with (
        started(HANGING, live) as (hanging, port),
        socket.create_connection((ADDRESS, port)) as client,
    ):
        client.sendall(b"GET /readyz HTTP/1.1\r\n\r\n")
        said = read_until("Answering", hanging)
        hanging.terminate()
        assert hanging.wait(60) == 0
    assert said == "Answering True\n"  # it collects garbage, but looks at nothing that was loaded


# A server whose database stops answering once a stream is open.
HANGING_HUB = """
import sys, time
import django
django.setup()
from config.live import __main__
from events.live import hub
read_end, looks = hub.read_end, []
def hang_later(position):
    looks.append(1)
    if len(looks) > 5:
        print("Hanging", file=sys.stderr, flush=True)
        time.sleep(900)
    return read_end(position)
hub.read_end = hang_later
__main__.main()
"""


def test_a_stop_ends_streams_though_the_database_hangs(web, live):
    headers = {**bearer(web.seed["readToken"]), **STREAM}
    with started(HANGING_HUB, live) as (hanging, port):
        url = f"http://{ADDRESS}:{port}{EVENTS}"
        with httpx2.stream("GET", url, headers=headers, trust_env=False, timeout=60) as stream:
            read_until("Hanging", hanging)
            hanging.terminate()
            assert '"restarting"' in "".join(stream.iter_text())
        assert hanging.wait(60) == 0


# A server that does not give up on connections that a stop left.
PATIENT = """
import django
django.setup()
from config.live import __main__, server
server.STOPPED = 900
__main__.main()
"""


def test_a_stop_does_not_wait_for_clients_that_connected_just_before_it(live):
    with ExitStack() as clients, started(PATIENT, live) as (patient, port):
        patient.send_signal(signal.SIGSTOP)  # so that the stop and the clients arrive together
        for _ in range(50):
            clients.enter_context(socket.create_connection((ADDRESS, port)))
        patient.terminate()
        patient.send_signal(signal.SIGCONT)
        assert patient.wait(60) == 0


def test_a_stop_gives_up_in_the_time_that_the_contract_promises():
    assert server.STOPPING < server.STOPPED < ENDED_WITHIN


def test_a_stop_ends_the_streams_one_after_the_other_and_nothing_is_lost(web):
    """Each reader goes on at its cursor when the server is back."""
    readers, token = 15, web.seed["platformToken"]
    headers = {**bearer(token), **STREAM}
    unlimited = replace(web, environment={**web.environment, "LIMIT_STREAMS": "off"})
    with httpx2.Client(
        trust_env=False, timeout=60, limits=httpx2.Limits(max_connections=20)
    ) as client:
        with ExitStack() as first, started(PATIENT, unlimited) as (patient, port):
            url = f"http://{ADDRESS}:{port}{EVENTS}"
            streams = [
                first.enter_context(client.stream("GET", url, headers=headers))
                for _ in range(readers)
            ]
            assert [stream.status_code for stream in streams] == [200] * readers
            patient.terminate()
            cursors = []
            for stream in streams:
                text = "".join(stream.iter_text())
                assert text.endswith('event: end\ndata: {"reason":"restarting"}\n\n')
                cursors += re.findall(r"^id: (\S+)$", text, re.MULTILINE)[-1:]
            assert len(cursors) == readers
            assert patient.wait(60) == 0
        with serving_live(web, LIVE_PORT=str(port)):
            with Service(web.base_url, web.seed) as service:
                assert service.push(service.fanout(), token).is_success
            with client.stream(
                "GET", url, headers={**headers, "Last-Event-ID": cursors[0]}
            ) as back:
                assert next(positions(back)) == head(web)


def head(web: Server) -> int:
    path = f"{EVENTS}?order=desc&limit=1"
    page = asked(web, path, **bearer(web.seed["platformToken"])).json()
    return page["events"][0]["position"]


def positions(stream: httpx2.Response) -> Iterator[int]:
    """The positions of the events of a stream."""
    for line in stream.iter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))["position"]

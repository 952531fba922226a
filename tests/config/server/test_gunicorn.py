"""gunicorn's settings, and its responses to invalid requests."""

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time

import httpx2
import pytest
from django.core.exceptions import ImproperlyConfigured

from config.environment import ROOT, refuse_public
from tests.config.server.test_framing import connected
from tests.config.test_settings import KEYS, environment
from tests.guard import GUNICORN
from tests.server import free_port, serving
from tests.streams import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.once]

SECRET = "svc_plat_nobody-may-read-this"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - what is refused
REFUSED = (
    "Invalid settings: HOST is not a loopback address and TRUSTED_PROXIES is 0. "
    "Put a proxy in front, as deploy/nginx.conf does, and set TRUSTED_PROXIES to 1.\n"
)


# gunicorn itself would load the application, too.
READING = """
import json, runpy
found = runpy.run_path("config/gunicorn.conf.py")
plain = {name: value for name, value in found.items() if isinstance(value, (str, int))}
print(json.dumps(plain))
"""


def settings_of(**given):
    """Returns gunicorn's settings under this environment, by name."""
    done = subprocess.run(
        [sys.executable, "-c", READING],
        cwd=ROOT,
        env=environment(**KEYS, **given),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def started(*options, **settings):
    """Returns gunicorn's last line at start: that it listens, or why it does not."""
    given = environment(**KEYS, PORT=str(free_port()), WEB_CONCURRENCY="1", **settings)
    with subprocess.Popen(
        [*GUNICORN, *options], cwd=ROOT, env=given, stderr=subprocess.PIPE, text=True
    ) as gunicorn:
        said = ""
        while "Listening at" not in said and (line := gunicorn.stderr.readline()):
            said = line
        gunicorn.send_signal(signal.SIGINT)
        gunicorn.communicate()
    return said if "Listening at" in said else (gunicorn.returncode, said)


def test_it_listens_for_others_behind_a_proxy_alone():
    assert started(HOST=EVERYWHERE) == (1, REFUSED)
    for host in ("::", "192.0.2.1"):
        with pytest.raises(ImproperlyConfigured):
            refuse_public([host], trusted_proxies=0)


def test_the_options_of_gunicorn_do_not_go_around_it():
    assert started("--bind", f"{EVERYWHERE}:{free_port()}") == (1, REFUSED)


def test_behind_a_proxy_it_listens_for_others():
    assert f"http://{EVERYWHERE}:" in started(HOST=EVERYWHERE, TRUSTED_PROXIES="1")


def test_a_unix_socket_is_of_this_machine(tmp_path):
    assert "unix:" in started("--bind", f"unix:{tmp_path / 'socket'}")


# What gunicorn's arbiter and a new worker do. The signal comes before the worker can handle it.
FORKING = """
import os, signal, sys
from config.server.worker import hold_stops, release_stops
os.register_at_fork(before=hold_stops, after_in_parent=release_stops)
signal.signal(signal.SIGQUIT, lambda *_: None)  # the arbiter's handler
told, tell = os.pipe()
worker = os.fork()
if not worker:
    os.read(told, 1)
    signal.signal(signal.SIGQUIT, lambda *_: os._exit(7))
    release_stops()
    os._exit(1)
os.kill(worker, signal.SIGQUIT)
os.write(tell, b"!")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]))
"""


def test_a_signal_that_comes_before_a_worker_can_handle_it_is_not_lost():
    done = subprocess.run([sys.executable, "-c", FORKING], cwd=ROOT, env=environment(**KEYS))
    assert done.returncode == 7


def test_workers_and_threads_are_the_environments():
    found = settings_of(WEB_CONCURRENCY="7", THREADS="5")
    assert (found["workers"], found["threads"]) == (7, 5)


def test_the_connections_of_the_default_fit_postgresql():
    found = settings_of(DATABASE_URL="postgres://name@host/signals")
    assert found["workers"] * (found["threads"] + 1) < 100


def test_by_default_two_workers_trust_no_proxy_and_finish_the_longest_answer_before_they_stop():
    found = settings_of()
    assert (found["workers"], found["forwarded_allow_ips"]) == (2, "")
    assert found["graceful_timeout"] > 25


def test_requests_are_read_by_the_parser_that_the_tests_of_framing_prove():
    assert settings_of()["http_parser"] == "python"


@pytest.fixture(scope="module")
def served():
    """A server of one process."""
    with serving(WEB_CONCURRENCY="1") as server:
        yield server


def exchange(server, head):
    """Returns everything received for these bytes until the server closes the connection."""
    with connected(server) as client:
        client.sendall(head + b"Connection: close\r\n\r\n")
        return b"".join(iter(lambda: client.recv(65536), b""))


def test_on_ones_own_machine_it_says_an_address_that_answers():
    """On a terminal, in a plain line."""
    settings = environment(**KEYS, PORT=str(free_port()), WEB_CONCURRENCY="1")
    terminal, its_end = pty.openpty()
    server = subprocess.Popen(
        GUNICORN,
        cwd=ROOT,
        env=settings,
        stdout=its_end,
        stderr=subprocess.DEVNULL,
    )
    os.close(its_end)
    with os.fdopen(terminal) as lines:
        said, address = next(iter(lines)).split()
        assert (said, address) == ("Serving", f"http://localhost:{settings['PORT']}")
        assert httpx2.get(f"{address}/healthz", trust_env=False, timeout=60).is_success
    server.terminate()
    assert server.wait() == 0


NOT_REQUESTS = {
    "a line that is none": (f"{SECRET}\r\n", 400),
    "a header without a name": (f"GET / HTTP/1.1\r\nAuthor ization: {SECRET}\r\n", 400),
    "a folded header": (f"GET / HTTP/1.1\r\nAuthorization: a\r\n {SECRET}\r\n", 400),
    "another version": (f"GET /?t={SECRET} HTTP/{SECRET}\r\n", 400),
    "a long line": (f"GET /{SECRET}{'a' * 5000} HTTP/1.1\r\n", 414),
    "a long header": (f"GET / HTTP/1.1\r\nA: {SECRET}{'a' * 9000}\r\n", 431),
    "many headers": ("GET / HTTP/1.1\r\n" + f"A: {SECRET}\r\n" * 65, 431),
    "an unknown coding": (f"POST / HTTP/1.1\r\nTransfer-Encoding: {SECRET}\r\n", 501),
    "an expectation": (f"POST / HTTP/1.1\r\nExpect: {SECRET}\r\nContent-Length: 1\r\n", 417),
}


@pytest.mark.parametrize("what", NOT_REQUESTS)
def test_what_is_not_a_request_is_answered_and_repeated_nowhere(served, what):
    head, status = NOT_REQUESTS[what]
    answer = exchange(served, head.encode())
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert SECRET.encode() not in answer
    assert SECRET not in served.log.read_text()


WAITS = b" HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: 100-continue\r\n"
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
HOOK = b"POST /api/hooks/signal"
SIGNED = f"X-SVC-Timestamp: now\r\nX-SVC-Signature: v1={'0' * 64}\r\n".encode()


@pytest.mark.parametrize(
    ("line", "headers", "answered"),
    [
        (HOOK, b"Content-Length: 65537\r\n", [b"413"]),
        (HOOK, b"Transfer-Encoding: chunked\r\n", [b"411"]),
        (HOOK, b"Content-Length: 2\r\nContent-Encoding: gzip\r\n", [b"415"]),
        (b"PUT /api/hooks/signal", b"Content-Length: 2\r\n", [b"405"]),
        (b"POST /api/hooks/nothing", b"Content-Length: 2\r\n", [b"404"]),
        (b"POST /api/v1/tokens", b"Content-Length: 2\r\nAuthorization: Bearer x\r\n", [b"401"]),
        (b"GET /healthz", b"Content-Length: 2\r\n", [b"200"]),
        (HOOK, b"Content-Length: 2\r\n", [b"401"]),
        (HOOK, b"Content-Length: 2\r\n" + SIGNED, [b"100", b"401"]),
    ],
)
def test_a_client_is_asked_for_its_body_only_if_that_is_read(served, line, headers, answered):
    with connected(served) as client:
        now = str(int(time.time())).encode()
        client.sendall(line + WAITS + headers.replace(b"now", now) + b"\r\n")
        received = client.recv(65536)
        if b"100" in answered:
            client.sendall(b"{}")
            client.shutdown(socket.SHUT_WR)
        received += b"".join(iter(lambda: client.recv(65536), b""))
    assert re.findall(rb"HTTP/1.1 (\d+) ", received) == answered


def test_a_body_that_is_too_large_ends_the_connection_and_the_answer_says_so(served):
    """gunicorn reads no more of it. A client that sent its next request there would lose it."""
    head = b"POST /api/hooks/signal HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 200000\r\n\r\n"
    with connected(served) as client:
        client.sendall(head + b"x" * 200_000)
        received = b"".join(iter(lambda: client.recv(65536), b""))
    assert re.findall(rb"HTTP/1.1 (\d+) ", received) == [b"413"]
    assert b"\r\nConnection: close\r\n" in received


def test_others_are_served_while_a_client_does_not_close_a_connection_that_ended(served):
    wait_until(lambda: _is_another_served_meanwhile(served), "Others wait for a connection's end.")


def _is_another_served_meanwhile(server):
    """Whether another request is answered before the server has given up the first connection."""
    with connected(server) as first:
        first.sendall(HEALTH + b"Connection: close\r\n\r\n")
        while first.recv(65536):
            pass
        assert b"200 OK" in exchange(server, HEALTH)
        try:  # what arrives at a connection that is closed is answered with a reset
            first.sendall(b"x")
            first.sendall(b"x")
            return first.recv(1) == b""
        except OSError:
            return False

"""How it is served: what gunicorn is told, and what it does with what is not a request."""

import http.client
import os
import socket
import subprocess
import sys
import time

import pytest

from config import worker
from config.environment import ROOT
from config.worker import Client

pytestmark = pytest.mark.once

KEY = "5e" * 31 + "a1"
SECRET = "svc_plat_nobody-may-read-this"


def environment(**settings):
    keys = {"SECRET_KEY": KEY, "TOKEN_KEYS": KEY, "SECRET_KEYS": KEY}
    return {"PATH": os.environ["PATH"], "ENV_FILE": os.devnull, **keys, **settings}


def told(**settings):
    """The settings of gunicorn under this environment, by name."""
    command = ["gunicorn", "-c", "config/gunicorn.conf.py", "--print-config", "--check-config"]
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env=environment(**settings),
        capture_output=True,
        text=True,
        check=True,
    )
    lines = (line.partition("=") for line in done.stdout.splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}


def test_it_listens_where_the_environment_says():
    assert told(HOST="127.0.0.2", PORT="9000")["bind"] == "['127.0.0.2:9000']"


def test_by_default_only_this_machine_reaches_it():
    assert told()["bind"] == "['127.0.0.1:8000']"


def test_workers_and_threads_are_the_environments():
    found = told(WEB_CONCURRENCY="7", THREADS="5")
    assert (found["workers"], found["threads"]) == ("7", "5")


def test_sqlite_is_served_by_two():
    assert told()["workers"] == "2"


def test_the_connections_of_the_default_fit_postgresql():
    found = told(DATABASE_URL="postgres://name@host/signals")
    assert int(found["workers"]) * (int(found["threads"]) + 1) < 100


def test_gunicorn_believes_no_proxy_by_itself():
    assert told()["forwarded_allow_ips"] in ("", "[]")


def test_who_stops_it_lets_the_longest_answer_finish():
    assert int(told()["graceful_timeout"]) > 25


@pytest.fixture
def pair():
    """A client's connection as the worker has it, and the client's own end."""
    ours, theirs = socket.socketpair()
    client = Client(fileno=ours.detach())
    yield client, theirs
    client.close()
    theirs.close()


def test_a_client_that_stalls_in_its_request_is_given_up(pair):
    client, theirs = pair
    theirs.sendall(b"POST / HT")
    client.read_by = time.monotonic() + 0.05
    assert client.recv(100) == b"POST / HT"
    with pytest.raises(ConnectionResetError):
        client.recv(100)


def test_a_client_that_drips_has_no_longer(pair):
    client, _ = pair
    client.read_by = time.monotonic() - 1
    with pytest.raises(ConnectionResetError):
        client.recv(100)


def test_a_client_that_does_not_take_its_answer_is_given_up(pair, monkeypatch):
    client, _ = pair
    monkeypatch.setattr(worker, "WRITING", 0.05)
    with pytest.raises(ConnectionResetError):
        client.sendall(b"x" * 10_000_000)


def test_a_patience_that_was_set_stands(pair):
    client, _ = pair
    client.settimeout(0.01)
    with pytest.raises(TimeoutError):
        client.recv(100)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The address of a real server; what it logs goes to a file."""
    folder = tmp_path_factory.mktemp("gunicorn")
    settings = environment(
        DATABASE_URL=f"sqlite:///{folder / 'service.sqlite3'}",
        REQUIRE_HTTPS="off",
        PORT=str(_free_port()),
        WEB_CONCURRENCY="1",
        PYTHONUNBUFFERED="1",
    )
    command = ["gunicorn", "-c", "config/gunicorn.conf.py"]
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=ROOT, env=settings, stdout=log, stderr=log
        )
        address = ("127.0.0.1", int(settings["PORT"]))
        _wait_for(address, server)
        yield address, folder / "log"
        server.terminate()
        assert server.wait(30) == 0


def _free_port():
    with socket.socket() as anybody:
        anybody.bind(("127.0.0.1", 0))
        return anybody.getsockname()[1]


def _wait_for(address, server):
    while server.poll() is None:
        try:
            if b"200 OK" in exchange(address, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"):
                return
        except ConnectionRefusedError:
            time.sleep(0.02)
    raise AssertionError("The server did not start.")


def exchange(address, head, body=b""):
    """Everything that comes back for these bytes until the server closes."""
    with socket.create_connection(address, timeout=20) as client:
        client.sendall(head + b"Connection: close\r\n\r\n" + body)
        return b"".join(iter(lambda: client.recv(65536), b""))


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


@pytest.mark.processes
@pytest.mark.parametrize("what", NOT_REQUESTS)
def test_what_is_not_a_request_is_answered_and_repeated_nowhere(served, what):
    address, log = served
    head, status = NOT_REQUESTS[what]
    answer = exchange(address, head.encode())
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert SECRET.encode() not in answer
    assert SECRET not in log.read_text()


@pytest.mark.processes
def test_who_does_not_close_holds_up_nobody(served):
    address, _ = served
    idle = [socket.create_connection(address) for _ in range(5)]
    for client in idle:
        client.sendall(b"nonsense\r\n\r\n")
    began = time.monotonic()
    assert b"200 OK" in exchange(address, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
    assert time.monotonic() - began < worker.CLOSING
    for client in idle:
        client.close()


@pytest.mark.processes
def test_many_requests_pass_on_one_connection(served):
    address, _ = served
    client = http.client.HTTPConnection(*address, timeout=20)
    client.connect()
    first = client.sock
    for _ in range(3):
        client.request("GET", "/healthz", headers={"Host": "localhost"})
        assert client.getresponse().read() == b'{"alive": true}'
    assert client.sock is first
    client.close()


@pytest.mark.processes
@pytest.mark.parametrize(("length", "kept"), [(65535, True), (65536, False), (200_000, False)])
def test_a_connection_that_ends_behind_a_refused_body_is_said_to(served, length, kept):
    address, _ = served
    client = http.client.HTTPConnection(*address, timeout=20)
    client.request("POST", "/api/hooks/signal", b"x" * length, {"Host": "localhost"})
    answer = client.getresponse()
    assert answer.status == (413 if length > 65536 else 401)
    assert (answer.getheader("Connection") != "close") == kept
    client.close()

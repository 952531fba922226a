"""gunicorn's settings, and its responses to invalid requests."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from config.environment import ROOT
from tests.server import free_port

pytestmark = [pytest.mark.processes, pytest.mark.once]

KEY = "5e" * 31 + "a1"
SECRET = "svc_plat_nobody-may-read-this"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - what is refused
REFUSED = (
    "Invalid settings: HOST is not a loopback address and TRUSTED_PROXIES is 0. "
    "Put a proxy in front, as deploy/nginx.conf does, and set TRUSTED_PROXIES to 1.\n"
)


def environment(**settings):
    keys = {"SECRET_KEY": KEY, "TOKEN_KEYS": KEY, "SECRET_KEYS": KEY}
    return {"PATH": os.environ["PATH"], "ENV_FILE": os.devnull, **keys, **settings}


def printed_settings(**settings):
    """Returns gunicorn's settings under this environment, by name."""
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
    assert printed_settings(HOST="127.0.0.2", PORT="9000")["bind"] == "['127.0.0.2:9000']"


def test_by_default_only_this_machine_reaches_it():
    assert printed_settings()["bind"] == "['127.0.0.1:8000']"


def test_an_ipv6_address_stands_in_brackets():
    assert printed_settings(HOST="::1")["bind"] == "['[::1]:8000']"


def started(*options, **settings):
    """Returns gunicorn's last line at start: that it listens, or why it does not."""
    command = [sys.executable, "-m", "gunicorn", "-c", "config/gunicorn.conf.py", *options]
    given = environment(**{"PORT": str(free_port()), **settings})
    with subprocess.Popen(
        command, cwd=ROOT, env=given, stderr=subprocess.PIPE, text=True
    ) as gunicorn:
        said = ""
        while "Listening at" not in said and (line := gunicorn.stderr.readline()):
            said = line
        gunicorn.send_signal(signal.SIGINT)
        gunicorn.communicate(timeout=30)
    return said if "Listening at" in said else (gunicorn.returncode, said)


@pytest.mark.parametrize("host", [EVERYWHERE, "::", "192.0.2.1"])
def test_it_listens_for_others_behind_a_proxy_alone(host):
    assert started(HOST=host) == (1, REFUSED)


def test_the_options_of_gunicorn_do_not_go_around_it():
    assert started("--bind", f"{EVERYWHERE}:{free_port()}") == (1, REFUSED)


def test_behind_a_proxy_it_listens_for_others():
    assert f"http://{EVERYWHERE}:" in started(HOST=EVERYWHERE, TRUSTED_PROXIES="1")


def test_a_unix_socket_is_of_this_machine(tmp_path):
    assert "unix:" in started("--bind", f"unix:{tmp_path / 'socket'}")


def test_workers_and_threads_are_the_environments():
    found = printed_settings(WEB_CONCURRENCY="7", THREADS="5")
    assert (found["workers"], found["threads"]) == ("7", "5")


def test_sqlite_is_served_by_two():
    assert printed_settings()["workers"] == "2"


def test_the_connections_of_the_default_fit_postgresql():
    found = printed_settings(DATABASE_URL="postgres://name@host/signals")
    assert int(found["workers"]) * (int(found["threads"]) + 1) < 100


def test_gunicorn_believes_no_proxy_by_itself():
    assert printed_settings()["forwarded_allow_ips"] in ("", "[]")


def test_who_stops_it_lets_the_longest_answer_finish():
    assert int(printed_settings()["graceful_timeout"]) > 25


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The address of a real server that logs to a file."""
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
    """Returns everything received for these bytes until the server closes the connection."""
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


@pytest.mark.parametrize("what", NOT_REQUESTS)
def test_what_is_not_a_request_is_answered_and_repeated_nowhere(served, what):
    address, log = served
    head, status = NOT_REQUESTS[what]
    answer = exchange(address, head.encode())
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert SECRET.encode() not in answer
    assert SECRET not in log.read_text()


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

"""gunicorn and new connections: while all threads are busy, while it stops, and while it starts."""

import os
import signal
import socket
import subprocess
import threading
from contextlib import ExitStack, contextmanager, suppress

import pytest

from config.environment import ROOT
from tests.config.test_settings import KEYS, environment
from tests.drills.layout import listeners
from tests.guard import GUNICORN
from tests.server import ADDRESS, free_port
from tests.streams import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.once]

THREADS = 4
TIMEOUT = 60  # seconds
# /wait answers once the folder holds a file `release`; /slow takes 20 ms; /broken raises in its
# answer. Answers say how many connections gunicorn counts.
APPLICATION = """
import itertools, pathlib, os, time
import config.wsgi
from config.server.worker import Worker
folder, count = pathlib.Path({folder!r}), itertools.count()
workers, run = [], Worker.run
Worker.run = lambda worker: (workers.append(worker), run(worker))
def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/wait":
        (folder / f"waits-{{os.getpid()}}-{{next(count)}}").touch()
        while not (folder / "release").exists():
            time.sleep(0.02)
    elif path == "/slow":
        time.sleep(0.02)
    elif path == "/endless":
        environ["gunicorn.socket"].settimeout(0.1)
        start_response("200 OK", [])
        return iter(lambda: b"x" * 2**20, None)
    elif path == "/broken":
        start_response("200 OK", [("Content-Length", "2")])
        return (b"x" * (1 // divisor) for divisor in (1, 0))
    connections = str(workers[0].nr_conns)
    start_response("200 OK", [("Content-Length", "0"), ("Connections", connections)])
    return []
"""
# It is imported once the folder holds a file `release`.
STARTING = """
import pathlib, time
folder = pathlib.Path({folder!r})
(folder / "starts").touch()
while not (folder / "release").exists():
    time.sleep(0.02)
import config.wsgi
def application(environ, start_response):
    start_response("200 OK", [("Content-Length", "0")])
    return []
"""


# Python ignores an exception in a destructor, also one of a signal's handler.
BOOTING = """
import pathlib, time
class Slow:
    def __del__(self):
        pathlib.Path({folder!r}, "busy").touch()
        time.sleep(900)
Slow()
def application(environ, start_response): pass
"""
# A request that is not answered while the test runs.
ANSWERING = """
import pathlib, time
import config.wsgi
def application(environ, start_response):
    pathlib.Path({folder!r}, "busy").touch()
    time.sleep(900)
"""

# Since the file `answered`, rounds of events wait until a client is ready whose connection is kept,
# and then a listener. Since the file `asked` a stop comes in the first such round.
STOPPING_IN_A_ROUND = """
import pathlib, selectors, signal, socket
import config.wsgi
from config.server.worker import Worker
from gunicorn.sock import TCPSocket
folder, run = pathlib.Path({folder!r}), Worker.run
class Poller(selectors.DefaultSelector):
    is_over = False
    def select(self, timeout=None):
        ready = super().select(timeout)
        if self.is_over or not (folder / "answered").exists():
            return ready
        kinds = {{type(key.fileobj): (key, events) for key, events in ready}}
        if (folder / "asked").exists() and socket.socket in kinds and TCPSocket in kinds:
            self.is_over = True
            signal.raise_signal(signal.SIGTERM)
            return [kinds[socket.socket], kinds[TCPSocket]]
        return [kinds[int]] if int in kinds else []
def run_with(worker):
    worker.poller = Poller()
    run(worker)
Worker.run = run_with
def application(environ, start_response):
    start_response("200 OK", [("Content-Length", "0")])
    return []
"""


@contextmanager
def gunicorn(folder, processes):
    """gunicorn with this many processes. Yields its port."""
    with started(folder, APPLICATION, processes) as (port, _):
        wait_until(lambda: answers(port), "The server does not answer.")
        yield port


@contextmanager
def started(folder, application, processes, **settings):
    """gunicorn, which need not answer yet. Yields its port and its process.

    It logs to a file of the folder.
    """
    (folder / "slow_application.py").write_text(application.format(folder=str(folder)))
    port = free_port()
    settings = {"WEB_CONCURRENCY": str(processes), "THREADS": str(THREADS), **settings}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*GUNICORN, "--pythonpath", str(folder), "slow_application:application"],
            cwd=ROOT,
            env=environment(**KEYS, PORT=str(port), **settings),
            stdout=log,
            stderr=log,
        )
    try:
        yield port, process
    finally:
        (folder / "release").touch()
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(TIMEOUT)
        process.kill()
        process.wait()


@contextmanager
def connected(port):
    with socket.create_connection((ADDRESS, port), TIMEOUT) as client:
        yield client


def is_refused(port):
    """Whether nobody listens at the port."""
    try:
        with connected(port):
            return False
    except ConnectionRefusedError:
        return True


def ask(client, path, *headers):
    lines = "".join(f"{line}\r\n" for line in (f"GET {path} HTTP/1.1", "Host: localhost", *headers))
    client.sendall(f"{lines}\r\n".encode())


def answers(port, path="/"):
    """Whether a request on a new connection is answered. Nothing is left of it at the server."""
    try:
        with connected(port) as client:
            ask(client, path, "Connection: close")
            return is_answered(client)
    except (ConnectionRefusedError, TimeoutError):
        return False


def is_answered(client):
    return client.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_it_leaves_them_to_a_process_with_a_free_thread_and_a_stop_answers_who_waits_for_one(
    tmp_path,
):
    """At a stop who comes later is refused."""
    busy = 2 * THREADS
    with gunicorn(tmp_path, processes=2) as port, ExitStack() as stack:

        def occupied():
            return len(list(tmp_path.glob("waits-*")))

        def occupy(threads):
            for _ in range(threads - occupied()):
                ask(stack.enter_context(connected(port)), "/wait")
            wait_until(
                lambda: occupied() == threads,
                "Requests wait for a thread although one is free.",
            )

        occupy(busy - 1)
        assert all(answers(port) for _ in range(20))
        occupy(busy)
        waiting = [stack.enter_context(connected(port)) for _ in range(20)]
        for client in waiting:
            ask(client, "/")
        os.kill(listeners(port)[0], signal.SIGTERM)
        wait_until(lambda: is_refused(port), "It listens although it stops.")
        (tmp_path / "release").touch()
        assert all(is_answered(client) for client in waiting)


def test_a_stop_in_the_round_in_which_the_last_thread_is_taken_answers_who_else_is_in_it(tmp_path):
    server = started(tmp_path, STOPPING_IN_A_ROUND, 1, THREADS="1")
    with server as (port, _), ExitStack() as clients:
        wait_until(lambda: answers(port), "The server does not answer.")
        with connected(port) as kept:
            ask(kept, "/")
            assert is_answered(kept)
            (tmp_path / "answered").touch()
            ask(kept, "/")
            new = clients.enter_context(connected(port))
            ask(new, "/")
            (tmp_path / "asked").touch()
            assert is_answered(kept)
        assert is_answered(new)
        clients.close()
        log = tmp_path / "log"
        wait_until(lambda: "Worker exiting" in log.read_text(), "The worker does not stop.")
        assert '"level":"error"' not in log.read_text()


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    """The port of a gunicorn with one process, and the file of its log."""
    folder = tmp_path_factory.mktemp("one-process")
    with gunicorn(folder, processes=1) as port:
        yield port, folder / "log"


def test_it_takes_one_in_turn_although_open_connections_keep_it_busy(one_process):
    port, _ = one_process
    stopped = threading.Event()

    def keep_busy(client):
        while not stopped.is_set():
            ask(client, "/slow")
            assert client.recv(4096)

    with ExitStack() as stack:
        clients = [stack.enter_context(connected(port)) for _ in range(3 * THREADS)]
        threads = [threading.Thread(target=keep_busy, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        try:
            assert all(answers(port) for _ in range(5))
        finally:
            stopped.set()
            for thread in threads:
                thread.join()


def test_a_client_that_takes_nothing_in_time_loses_its_connection_without_a_traceback(one_process):
    """As many of them as there are threads, and then somebody else is answered."""
    port, log = one_process
    before = len(log.read_text())
    with ExitStack() as silent:
        for _ in range(THREADS):
            client = silent.enter_context(socket.create_connection((ADDRESS, port), TIMEOUT))
            client.sendall(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answers(port)
    assert '"level":"error"' not in log.read_text()[before:]


def test_a_connection_whose_answer_broke_off_is_counted_once(one_process):
    """A stop closes the connections that are kept once none is counted."""
    port, _ = one_process
    with connected(port) as asking:

        def is_alone():
            ask(asking, "/")
            return b"\r\nConnections: 1\r\n" in asking.recv(4096)

        wait_until(is_alone, "Connections that ended are counted.")
        with connected(port) as broken:
            ask(broken, "/broken")
            while broken.recv(4096):
                pass
        wait_until(is_alone, "The connection that broke off is not counted once.")


@pytest.mark.parametrize("proxies", [0, 1])
def test_behind_a_proxy_it_refuses_connections_until_a_process_is_ready(tmp_path, proxies):
    """So that the proxy asks another server. Without one a browser waits."""
    with started(tmp_path, STARTING, 1, TRUSTED_PROXIES=str(proxies)) as (port, _):
        wait_until((tmp_path / "starts").exists, "It does not start.")
        assert is_refused(port) is bool(proxies)
        (tmp_path / "release").touch()
        wait_until(lambda: answers(port), "It does not answer.")


@pytest.mark.parametrize("application", [BOOTING, ANSWERING], ids=["importing", "answering"])
def test_whatever_a_worker_does_a_stop_at_once_ends_it(tmp_path, application):
    patient = {"GUNICORN_CMD_ARGS": "--graceful-timeout 900"}
    with started(tmp_path, application, 1, **patient) as (port, process), ExitStack() as clients:
        wait_until(lambda: not is_refused(port), "It does not listen.")
        ask(clients.enter_context(connected(port)), "/")
        wait_until((tmp_path / "busy").exists, "The worker is not busy.")
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0  # it would wait longer than that before it kills a worker

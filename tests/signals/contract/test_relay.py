"""relay.py as a separate process between the charting platform and the hook.

test_relays.py tests what it has in common with relay.worker.js.
"""

import ast
import functools
import itertools
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.relays import (
    HERE,
    IN_TIME,
    PATH,
    RELAY,
    answering,
    answering_when,
    hook,
    message,
    relaying,
    slow_hook,
    without_another_thread,
)
from tests.streams import wait_until
from tokens.crypto import formats

pytestmark = [pytest.mark.processes, pytest.mark.once]

NO_HOOK = f"http://{HERE}:9/api/hooks/signal"
SLOW_BODY = f"POST {PATH} HTTP/1.1\r\nContent-Length: 1000\r\n\r\n{{"


# --- Who is let in --------------------------------------------------------------------------------


def test_a_connection_from_another_address_is_closed(server, bot, tmp_path):
    with relaying(tmp_path, hook(server), bot["secret"], RELAY_SENDERS="192.0.2.1") as relay:
        with pytest.raises(httpx2.TransportError):
            relay.alert(message(bot), **{"X-Forwarded-For": "192.0.2.1"})
        assert f"closed the connection of {HERE}: not in RELAY_SENDERS" in relay.log()


def forwarded(relay, bot, hops, **headers):
    return relay.alert(message(bot), **{"X-Forwarded-For": hops, **headers})


CERTIFICATE = "CN=TradingView Webhooks,O=TradingView\\, Inc.,C=US"


def test_behind_a_proxy_the_certificates_name_is_checked(server, bot, tmp_path):
    settings = {
        "RELAY_PROXY": HERE,
        "RELAY_SENDERS": "192.0.2.1",
        "RELAY_CERTIFICATE": "TradingView Webhooks",
    }
    shown = {"X-Client-Verify": "SUCCESS", "X-Client-DN": CERTIFICATE}
    wrong = [
        {},
        {**shown, "X-Client-Verify": "FAILED:self signed certificate"},
        {**shown, "X-Client-DN": "CN=Somebody,O=Else"},
        {**shown, "X-Client-DN": "CN=Somebody,O=a\\,CN=TradingView Webhooks"},
        {**shown, "X-Client-DN": "CN=Somebody,CN=TradingView Webhooks"},
    ]
    with relaying(tmp_path, hook(server), bot["secret"], **settings) as relay:
        assert forwarded(relay, bot, "192.0.2.1", **shown).status_code == 200
        for headers in wrong:
            answer = forwarded(relay, bot, "192.0.2.1", **headers)
            assert (answer.status_code, answer.json()["code"]) == (403, "certificate_wrong")


SENT = f"POST {PATH} HTTP/1.1\r\nX-Forwarded-For: {HERE}\r\n"
BEFORE_THE_BODY = {
    "no_such_path": "POST /guess HTTP/1.1\r\nContent-Length: 100\r\n",
    "sender_unknown": f"POST {PATH} HTTP/1.1\r\nContent-Length: 100\r\n",
    "body_too_large": f"{SENT}Content-Length: 65537\r\n",
    "length_required": f"{SENT}Transfer-Encoding: chunked\r\n",
    "not_an_alert": f"PUT {PATH} HTTP/1.1\r\nContent-Length: 100\r\n",
}


@pytest.mark.parametrize("code", BEFORE_THE_BODY)
def test_path_sender_and_headers_are_checked_before_the_body_is_read(bot, tmp_path, code):
    """The response arrives although no byte of the body was sent."""
    with (
        relaying(tmp_path, NO_HOOK, bot["secret"], RELAY_PROXY=HERE) as relay,
        connected(relay) as client,
    ):
        client.sendall(f"{BEFORE_THE_BODY[code]}\r\n".encode())
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    assert f'"code": "{code}"'.encode() in answer


# --- Slow and many --------------------------------------------------------------------------------

HANGS_UP_AFTER = 3  # seconds
ALERTS, BEYOND = 32, 8  # alerts that the relay forwards at a time, and more of them
THREADS = (
    64 + ALERTS + 2
)  # connections, alerts on their way, the one that listens, the one that ends
CROWD = 200
STRANGERS = {
    "silent": "",
    "slow header": f"POST {PATH} HTTP/1.1\r\nX-Slow: ",
    "another path": "POST /guess HTTP/1.1\r\nContent-Length: 1000\r\n\r\n{",
    "another sender": f"POST {PATH} HTTP/1.1\r\nContent-Length: 1000\r\n\r\n{{",
}


def connected(relay):
    return socket.create_connection((HERE, relay.port), timeout=60)


@contextmanager
def crowd(relay, begun):
    """Opens connections that send this beginning and then one byte a second."""
    clients, ended = [connected(relay) for _ in range(CROWD)], threading.Event()

    def send(part):
        for client in clients:
            with suppress(OSError):
                client.sendall(part)

    def drip():
        while begun and not ended.wait(1):
            send(b" ")

    send(begun.encode())
    dripping = threading.Thread(target=drip)
    dripping.start()
    try:
        yield clients
    finally:
        ended.set()
        dripping.join()
        for client in clients:
            client.close()


@pytest.mark.parametrize("kind", STRANGERS)
def test_many_slow_connections_do_not_block_an_alert(server, bot, tmp_path, kind):
    """The relay would hang up on them later than the platform gives up."""
    settings = {"RELAY_PROXY": HERE, "RELAY_SENDERS": "192.0.2.1"}
    with (
        relaying(tmp_path, hook(server), bot["secret"], **settings) as relay,
        crowd(relay, STRANGERS[kind]),
    ):
        for _ in range(5):
            assert forwarded(relay, bot, "192.0.2.1").status_code == 200


def test_many_connections_do_not_abort_a_running_alert(bot, tmp_path):
    arrived, go_on = threading.Event(), threading.Event()
    with (
        answering_when(arrived, go_on) as address,
        relaying(tmp_path, address, bot["secret"]) as relay,
        ThreadPoolExecutor(1) as platform,
    ):
        alert = platform.submit(relay.alert, message(bot))
        assert arrived.wait(60)
        with crowd(relay, STRANGERS["silent"]):
            go_on.set()
            assert alert.result().status_code == 200


@pytest.mark.parametrize("begun", ["", f"POST {PATH} HTTP/1.1\r\nX-Slow: ", SLOW_BODY])
def test_no_connection_lasts_longer_than_the_platform_waits(server, bot, tmp_path, begun):
    """A byte every tenth of a second does not extend the time."""
    with relaying(tmp_path, hook(server), bot["secret"], IN_TIME) as relay:
        began = time.monotonic()
        with connected(relay) as client, suppress(ConnectionError):
            client.sendall(begun.encode())
            client.settimeout(0.1)
            while not _ended(client):
                assert time.monotonic() < began + 120, "it does not end"
                client.sendall(b" " if begun else b"")
        assert time.monotonic() > began + HANGS_UP_AFTER - 1


def _ended(client):
    try:
        return client.recv(65536) == b""
    except TimeoutError:
        return False


def test_the_number_of_threads_is_bounded(bot, tmp_path):
    arrived, go_on = threading.Event(), threading.Event()
    with (
        answering_when(arrived, go_on) as address,
        relaying(tmp_path, address, bot["secret"]) as relay,
        ThreadPoolExecutor(ALERTS + BEYOND) as platform,
        crowd(relay, STRANGERS["silent"]),
    ):
        alerts = [platform.submit(relay.alert, message(bot)) for _ in range(ALERTS + BEYOND)]
        refused = list(itertools.islice(as_completed(alerts), BEYOND))
        assert {alert.result().json()["code"] for alert in refused} == {"busy"}
        deadline = time.monotonic() + 60  # before the relay hangs up on the crowd
        while threads_of(relay) > THREADS:
            assert time.monotonic() < deadline, "more threads run"
        assert threads_of(relay) > 64
        go_on.set()
    assert [alert.result().status_code for alert in alerts].count(200) == ALERTS


def threads_of(relay):
    return len(os.listdir(f"/proc/{relay.pid}/task"))


def test_an_alert_whose_thread_cannot_start_takes_no_place_for_good(bot, tmp_path):
    with answering() as address, relaying(tmp_path, address, bot["secret"]) as relay:
        for _ in range(ALERTS):
            assert _alert_without_a_thread(relay, bot)["code"] == "busy"
        assert relay.alert(message(bot)).status_code == 200


def test_a_connection_whose_thread_cannot_start_is_closed_and_the_relay_still_ends(bot, tmp_path):
    with relaying(tmp_path, NO_HOOK, bot["secret"]) as relay:
        with without_another_thread(relay), connected(relay) as client:
            assert client.recv(1) == b""
        wait_until(lambda: "a connection failed (RuntimeError)" in relay.log(), "It says nothing.")


def _alert_without_a_thread(relay, bot):
    """Sends an alert on a connection that has its thread, when no other thread can start."""
    idle = 2  # the one that listens, the one that ends
    body = message(bot).encode()
    wait_until(lambda: threads_of(relay) == idle, "A thread of the alert before still runs.")
    with connected(relay) as client:
        wait_until(lambda: threads_of(relay) > idle, "The connection has no thread.")
        with without_another_thread(relay):
            head = f"POST {PATH} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            answer = b"".join(iter(lambda: client.recv(65536), b""))
    return json.loads(answer.partition(b"\r\n\r\n")[2])


# --- What the platform hears when the hook does not speak -----------------------------------------


def test_a_socket_timeout_is_reported_as_a_slow_hook():
    relay = runpy.run_path(str(RELAY))
    with slow_hook(drips=False) as address:
        settings = relay["Settings"](["key"], urlsplit(address), "/", (HERE, 0), [], "", "")
        forwarding = relay["Forwarding"](settings, b"{}", "request", ended=lambda: None)
        forwarding._send(until=time.monotonic() + 0.2)
    answer = forwarding._done.get_nowait()
    assert (answer.status, json.loads(answer.body)["code"]) == (503, "hook_slow")


# --- The file itself ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"RELAY_SECRET": ""}, "RELAY_SECRET is empty"),
        ({"RELAY_SECRET": "svc_sign_short"}, "RELAY_SECRET must be the complete signing secret"),
        ({"RELAY_HOOK": ""}, "RELAY_HOOK must be the address"),
        ({"RELAY_HOOK": "http://signals.example/api/hooks/signal"}, "RELAY_HOOK must use https"),
        ({"RELAY_PATH": "/short"}, "A random one: /"),
        ({"RELAY_LISTEN": "8080"}, "RELAY_LISTEN must be an address and a port"),
        ({"RELAY_CERTIFICATE": "TradingView Webhooks"}, "RELAY_CERTIFICATE needs RELAY_PROXY"),
    ],
)
def test_an_invalid_setting_stops_the_start_with_a_message(settings, said):
    given = {
        "RELAY_SECRET": formats.new(formats.SIGNING_SECRET),
        "RELAY_HOOK": "https://signals.example/api/hooks/signal",
        "RELAY_PATH": PATH,
        **settings,
    }
    command = [sys.executable, "-I", str(RELAY)]
    done = subprocess.run(command, env=given, capture_output=True, text=True)
    assert done.returncode == 1
    assert said in done.stderr
    assert "svc_sign" not in done.stderr
    assert "Traceback" not in done.stderr


def test_it_runs_on_old_python_with_the_standard_library_only():
    tree = ast.parse(RELAY.read_text(), feature_version=(3, 8))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {
        (node.module if isinstance(node, ast.ImportFrom) else alias.name).partition(".")[0]
        for node in imports
        for alias in node.names
    }
    assert names <= set(sys.stdlib_module_names)


@pytest.mark.parametrize("text", ['{"a":1}', ' {"a": {"b": "}"}}\r\n', "{}", '{"é":"\\u00e9"}'])
def test_adding_the_nonce_changes_nothing_else(text):
    raw = text.encode()
    made = json.loads(read_relay()["to_forward"](raw))
    assert {name: value for name, value in made.items() if name != "nonce"} == json.loads(text)
    assert read_relay()["to_forward"](raw).startswith(raw.rstrip()[:-1])


@pytest.mark.parametrize("text", ["", "[]", "no", '{"nonce":null}', '{"nonce":"a"}', "[" * 20000])
def test_a_body_with_a_nonce_or_that_is_not_an_object_is_unchanged(text):
    assert read_relay()["to_forward"](text.encode()) == text.encode()


@functools.cache
def read_relay():
    """The names that the file defines, without starting the relay."""
    names = {"__name__": "relay"}
    exec(compile(RELAY.read_text(), RELAY, "exec"), names)  # noqa: S102 - the file that is offered
    return names


def test_the_signal_handler_waits_for_no_thread():
    """The main thread may hold a lock of the threading module when the signal arrives."""
    relay = runpy.run_path(str(RELAY))["Relay"]
    server = SimpleNamespace(stopped=False)
    with threading._shutdown_locks_lock:  # type: ignore[attr-defined]
        relay.stop(server, signal.SIGTERM, None)
    assert server.stopped

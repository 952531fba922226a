"""The signing relay, as a trader runs it: a process of its own between the platform and the hook.

The tests play the platform: its headers, its body, its second try after a 5xx.
"""

import ast
import json
import os
import re
import runpy
import secrets
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.server import ROOT, Server, serving
from tokens import formats, signing

pytestmark = [pytest.mark.processes, pytest.mark.once]

RELAY = ROOT / "static" / "relay.py"
HERE = "127.0.0.1"
PATH = "/3mQ9cXo5uT2vWz8rYb1nKs7d"
PLATFORM = {"User-Agent": "Go-http-client/1.1", "Content-Type": "application/json; charset=utf-8"}
PATIENCE = 3  # seconds: then the platform gives up
STARTING = 30  # seconds, on the slowest machine


class Relay:
    """A relay that listens, and what it printed."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self.port = 0

    def log(self) -> str:
        return self._log.read_text()

    def url(self, path: str = PATH) -> str:
        return f"http://{HERE}:{self.port}{path}"

    def alert(self, text: str, path: str = PATH, **headers: str) -> httpx.Response:
        """What the platform does: a POST of the message, and three seconds of patience."""
        return httpx.post(
            self.url(path),
            content=text.encode(),
            headers={**PLATFORM, **headers},
            timeout=PATIENCE,
            trust_env=False,
        )


@contextmanager
def relaying(folder: Path, hook: str, secret: str, **settings: str | None):
    """A relay with these settings, null for one that is not set, until the block ends."""
    own = {
        "RELAY_SECRET": secret,
        "RELAY_HOOK": hook,
        "RELAY_PATH": PATH,
        "RELAY_LISTEN": f"{HERE}:0",
        "RELAY_SENDERS": HERE,
    }
    environment = {name: text for name, text in (own | settings).items() if text is not None}
    relay = Relay(folder / f"relay-{secrets.token_hex(4)}")
    # A machine of the trader's, where nothing of the service is.
    command = [sys.executable, "-I", str(RELAY)]
    with open(relay._log, "wb") as log:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
    try:
        _wait_until_it_listens(process, relay)
        yield relay
    finally:
        process.terminate()
        assert process.wait(10) == 0
    assert "Traceback" not in relay.log()


def _wait_until_it_listens(process, relay):
    deadline = time.monotonic() + STARTING
    while process.poll() is None and time.monotonic() < deadline:
        if found := re.search(r"listening on port (\d+)", relay.log()):
            relay.port = int(found.group(1))
            return
        time.sleep(0.02)
    raise AssertionError(f"The relay did not start: {relay.log()}")


@pytest.fixture(scope="module")
def server():
    with serving(ready=1, idle=0) as server:
        yield server


@pytest.fixture
def bot(server):
    return server.seed["automation"]


@pytest.fixture(scope="module")
def relay(server, tmp_path_factory):
    with relaying(tmp_path_factory.mktemp("relay"), hook(server), secret_of(server)) as relay:
        yield relay


def hook(server: Server) -> str:
    return f"{server.base_url}/api/hooks/signal"


def secret_of(server: Server) -> str:
    return str(server.seed["automation"]["secret"])


def message(bot, **changes):
    """An alert's message as the page gives it, its placeholders filled in by the platform."""
    body = {
        "botId": bot["botId"],
        "pair": bot["pair"],
        "direction": bot["direction"],
        "nonce": f"15-{secrets.token_hex(8)}",
        "elected": True,
        "source": "tradingview",
        **changes,
    }
    return json.dumps({name: value for name, value in body.items() if value is not None})


def latest(server, kind):
    """The newest event of this kind on the desk of the bot's owner."""
    token = server.seed["desks"][0]["deskToken"]
    answer = httpx.get(
        f"{server.base_url}/api/v1/events?order=desc&limit=1&kind={kind}",
        headers={"Authorization": f"Bearer {token}"},
        trust_env=False,
    )
    return answer.json()["events"][0]


def fills(server):
    token = server.seed["platformToken"]
    answer = httpx.get(
        f"{server.base_url}/api/v1/events?kind=signal.filled&limit=1000",
        headers={"Authorization": f"Bearer {token}"},
        trust_env=False,
    )
    return len(answer.json()["events"])


def test_an_alert_becomes_a_fill(server, relay, bot):
    answer = relay.alert(message(bot))
    assert answer.status_code == 200
    signal_id = answer.json()["signal"]["id"]
    assert latest(server, "signal.filled")["signal"]["id"] == signal_id
    assert f"200 filled: {signal_id} (request " in relay.log()
    assert answer.headers["Content-Type"] == "application/json"


def test_a_message_without_a_nonce_gets_one_of_its_own_bytes(relay, bot):
    text = message(bot, nonce=None, at=secrets.token_hex(8))
    answer = relay.alert(text)
    assert re.fullmatch("relay-[0-9a-f]{32}", answer.json()["signal"]["nonce"])
    assert answer.json()["ignored"] == ["at"]


def test_the_second_try_of_an_alert_is_the_same_signal(server, relay, bot):
    text, before = message(bot, nonce=None, at=secrets.token_hex(8)), fills(server)
    first, second = relay.alert(text), relay.alert(text)
    assert (first.status_code, second.status_code) == (200, 409)
    assert second.json()["first"]["signal"]["id"] == first.json()["signal"]["id"]
    assert second.json()["identical"]
    assert fills(server) == before + 1
    assert "put {{timenow}} into the message" in relay.log()


def test_a_second_try_after_an_answer_that_never_came_is_the_same_signal(server, bot, tmp_path):
    """The hook took it, the answer was lost, the platform heard a 5xx and sends it again."""
    text, before = message(bot, nonce=None, at=secrets.token_hex(8)), fills(server)
    with losing_the_answer(server) as lossy, relaying(tmp_path, lossy, secret_of(server)) as relay:
        assert relay.alert(text).status_code == 502
    with relaying(tmp_path, hook(server), secret_of(server)) as started_anew:
        assert started_anew.alert(text).status_code == 409
    assert fills(server) == before + 1


def test_two_alerts_of_different_text_are_two(server, relay, bot):
    before = fills(server)
    for _ in range(2):
        assert relay.alert(message(bot, nonce=None, at=secrets.token_hex(8))).status_code == 200
    assert fills(server) == before + 2


# What people write into the message. The bot's page names each (templates/signals/relay.html).
MISTAKES = {
    "ticker_only": {"pair": "ETHUSDT"},
    "pair_mismatch": {"pair": "BTC/USDT"},
    "invalid": {"direction": "buy"},
    "direction_mismatch": {"direction": "short"},
    "not_elected": {"elected": "true"},
    "exchange_secret": {"apiKey": "abc"},
}


@pytest.mark.parametrize("code", MISTAKES)
def test_a_mistake_is_told_by_its_sentence_in_the_log_and_on_the_bots_page(
    server, relay, bot, code
):
    answer = relay.alert(message(bot, **MISTAKES[code]))
    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert f"422 {code}: {answer.json()['detail']} (request " in relay.log()
    assert latest(server, "signal.refused")["data"]["code"] == code


def test_a_name_with_a_space_makes_no_nonce(server, relay, bot):
    answer = relay.alert(message(bot, nonce="Long entry-15"))
    assert answer.json()["errors"][0]["field"] == "nonce"
    assert latest(server, "signal.refused")["data"]["code"] == "invalid"


def test_a_message_that_is_no_json_goes_on_as_it_is(relay):
    answer = relay.alert('{"pair": "{{strategy.order.id}} says "buy""}')
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")
    assert "400 malformed: " in relay.log()


def test_the_secret_of_another_bot_shows_on_the_page(server, bot, tmp_path):
    other = formats.new(formats.SIGNING_SECRET)
    with relaying(tmp_path, hook(server), other) as relay:
        answer = relay.alert(message(bot))
    assert (answer.status_code, answer.json()["code"]) == (401, "signature_invalid")
    assert latest(server, "signal.refused")["data"]["code"] == "signature_invalid"


def test_several_secrets_sign_side_by_side(server, bot, tmp_path):
    both = f"{formats.new(formats.SIGNING_SECRET)}, {bot['secret']}"
    with relaying(tmp_path, hook(server), both) as relay:
        assert relay.alert(message(bot)).status_code == 200


def test_nothing_secret_stands_in_the_log(server, relay, bot):
    relay.alert(message(bot))
    relay.alert(message(bot, apiKey="the-key-of-an-exchange"))
    relay.alert("{}", path="/nothing/here")
    httpx.get(relay.url(), trust_env=False)
    log = relay.log()
    for secret in (bot["secret"], PATH, "the-key-of-an-exchange", "nothing/here", "v1="):
        assert secret not in log


# --- Who is let in --------------------------------------------------------------------------------


def test_another_path_is_not_there(relay, bot):
    answer = relay.alert(message(bot), path="/guess")
    assert (answer.status_code, answer.json()["code"]) == (404, "no_such_path")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "NONSENSE"])
def test_only_a_post_is_an_alert(relay, method):
    assert httpx.request(method, relay.url(), trust_env=False).status_code == 405


def test_who_is_no_sender_is_hung_up_on(server, bot, tmp_path):
    with relaying(tmp_path, hook(server), bot["secret"], RELAY_SENDERS="192.0.2.1") as relay:
        with pytest.raises(httpx.TransportError):
            relay.alert(message(bot), **{"X-Forwarded-For": "192.0.2.1"})
        assert f"hung up on {HERE}, which is not in RELAY_SENDERS" in relay.log()


def test_by_default_only_the_platform_is_let_in(server, bot, tmp_path):
    settings = {"RELAY_PROXY": HERE, "RELAY_SENDERS": None}
    with relaying(tmp_path, hook(server), bot["secret"], **settings) as relay:
        for address in ("52.89.214.238", "34.212.75.30", "54.218.53.128", "52.32.178.7"):
            assert forwarded(relay, bot, address).status_code == 200
        assert forwarded(relay, bot, HERE).status_code == 403


def forwarded(relay, bot, hops, **headers):
    return relay.alert(message(bot), **{"X-Forwarded-For": hops, **headers})


def test_of_the_proxy_the_last_address_counts(server, bot, tmp_path):
    settings = {"RELAY_PROXY": HERE, "RELAY_SENDERS": "192.0.2.1"}
    with relaying(tmp_path, hook(server), bot["secret"], **settings) as relay:
        assert forwarded(relay, bot, "203.0.113.9, 192.0.2.1").status_code == 200
        refused = forwarded(relay, bot, "192.0.2.1, 203.0.113.9")
        assert (refused.status_code, refused.json()["code"]) == (403, "sender_unknown")
        assert relay.alert(message(bot)).status_code == 403
    assert "403 sender_unknown: 203.0.113.9 is not in RELAY_SENDERS." in relay.log()


CERTIFICATE = "CN=TradingView Webhooks,O=TradingView\\, Inc.,C=US"


def test_the_certificates_name_is_asked_of_the_proxy(server, bot, tmp_path):
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


def test_a_body_without_its_length_or_beyond_it_is_refused(relay):
    def chunks():
        yield b"{}"

    answer = httpx.post(relay.url(), content=chunks(), trust_env=False)
    assert answer.json()["code"] == "length_required"
    assert relay.alert("x" * (64 * 1024 + 1)).status_code == 413


# --- What the platform hears when the hook does not speak -----------------------------------------


def test_a_hook_that_is_away_is_a_5xx_so_that_the_platform_sends_again(bot, tmp_path):
    with socket.create_server((HERE, 0)) as gone:
        port = gone.getsockname()[1]
    with relaying(tmp_path, f"http://{HERE}:{port}/api/hooks/signal", bot["secret"]) as relay:
        answer = relay.alert(message(bot))
    assert (answer.status_code, answer.json()["code"]) == (502, "hook_away")


@pytest.mark.parametrize("drips", [False, True], ids=["silent", "a byte at a time"])
def test_a_slow_hook_gets_no_more_time_than_the_platform_gives(bot, tmp_path, drips):
    with slow_hook(drips) as address, relaying(tmp_path, address, bot["secret"]) as relay:
        answer = relay.alert(message(bot))  # the platform's patience is the test's
    assert (answer.status_code, answer.json()["code"]) == (504, "hook_slow")


def test_it_is_told_as_slow_too_when_the_connections_own_clock_strikes_first():
    relay = runpy.run_path(str(RELAY))
    with slow_hook(drips=False) as address:
        settings = relay["Settings"](["key"], urlsplit(address), "/", (HERE, 0), [], "", "")
        forwarding = relay["Forwarding"](settings, b"{}", "request")
        forwarding._send(until=time.monotonic() + 0.2)
    answer = forwarding._done.get_nowait()
    assert (answer.status, json.loads(answer.body)["code"]) == (504, "hook_slow")


def test_the_services_own_5xx_stays_one(bot, tmp_path):
    raw = b"HTTP/1.1 503 Away\r\nContent-Length: 2\r\n\r\n{}"
    with answering(raw) as address, relaying(tmp_path, address, bot["secret"]) as relay:
        answer = relay.alert(message(bot))
    assert (answer.status_code, answer.content) == (503, b"{}")


def test_what_the_hook_says_breaks_no_line_of_the_log(bot, tmp_path):
    said = json.dumps({"code": "x", "detail": "one\r\ntwo"}).encode()
    raw = b"HTTP/1.1 422 No\r\nContent-Length: %d\r\n\r\n%s" % (len(said), said)
    with answering(raw) as address, relaying(tmp_path, address, bot["secret"]) as relay:
        relay.alert(message(bot))
    assert "422 x: one  two (request " in relay.log()


@contextmanager
def listening(serve):
    """A hook of sockets that serves each connection so, in a thread each."""
    with socket.create_server((HERE, 0)) as hook:
        ended = threading.Event()

        def accept():
            while not ended.is_set():
                try:
                    client, _ = hook.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(client, ended), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://{HERE}:{hook.getsockname()[1]}/api/hooks/signal"
        ended.set()
        hook.shutdown(socket.SHUT_RDWR)


def answering(raw):
    def serve(client, ended):
        with client:
            client.recv(65536)
            client.sendall(raw)

    return listening(serve)


def slow_hook(drips):
    def serve(client, ended):
        with client:
            client.recv(65536)
            while not ended.wait(0.2):
                if drips:
                    client.sendall(b"H")

    return listening(serve)


def losing_the_answer(server):
    """A line on which the request arrives, and the answer does not."""

    def serve(client, ended):
        host, port = server.base_url.removeprefix("http://").split(":")
        with client, socket.create_connection((host, int(port))) as onward:
            request = client.recv(65536)
            while request.count(b"}") == 0:
                request += client.recv(65536)
            onward.sendall(request)
            onward.recv(65536)

    return listening(serve)


# --- The file itself ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"RELAY_SECRET": ""}, "RELAY_SECRET takes the signing secret"),
        ({"RELAY_SECRET": "svc_sign_short"}, "RELAY_SECRET takes the signing secret"),
        ({"RELAY_HOOK": ""}, "RELAY_HOOK takes the address"),
        ({"RELAY_HOOK": "http://signals.example/api/hooks/signal"}, "RELAY_HOOK takes https"),
        ({"RELAY_PATH": "/short"}, "A fresh one: /"),
        ({"RELAY_LISTEN": "8080"}, "RELAY_LISTEN takes an address and a port"),
        ({"RELAY_CERTIFICATE": "TradingView Webhooks"}, "RELAY_CERTIFICATE needs RELAY_PROXY"),
    ],
)
def test_a_wrong_setting_stops_the_start_with_a_sentence(settings, said):
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


def test_it_is_python_of_the_oldest_machine_and_takes_the_standard_library_only():
    tree = ast.parse(RELAY.read_text(), feature_version=(3, 8))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {
        (node.module if isinstance(node, ast.ImportFrom) else alias.name).partition(".")[0]
        for node in imports
        for alias in node.names
    }
    assert names <= set(sys.stdlib_module_names)


@pytest.mark.parametrize("text", ['{"a":1}', ' {"a": {"b": "}"}}\r\n', "{}", '{"é":"\\u00e9"}'])
def test_all_but_the_nonce_stays_as_the_platform_wrote_it(text):
    raw = text.encode()
    made = json.loads(read_relay()["with_nonce"](raw))
    assert {name: value for name, value in made.items() if name != "nonce"} == json.loads(text)
    assert read_relay()["with_nonce"](raw).startswith(raw.rstrip()[:-1])


@pytest.mark.parametrize("text", ["", "[]", "no", '{"nonce":null}', '{"nonce":"a"}', "[" * 20000])
def test_what_has_a_nonce_or_is_no_object_stays_as_it_is(text):
    assert read_relay()["with_nonce"](text.encode()) == text.encode()


def test_it_signs_as_the_service_verifies():
    secret, body = formats.new(formats.SIGNING_SECRET), os.urandom(100)
    made = read_relay()["signing_headers"]([secret], body, 1763630000)
    assert made[signing.SIGNATURE_HEADER] == signing.sign(secret, 1763630000, body)


def read_relay():
    """The names that the file defines; nothing starts."""
    names = {"__name__": "relay"}
    exec(compile(RELAY.read_text(), RELAY, "exec"), names)  # noqa: S102 - the file that is offered
    return names

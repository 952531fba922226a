"""relay.py --check: a message through every step, and in words what is wrong."""

import io
import json
import os
import runpy
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from signals.contract.sample_code import ALERTS
from tests.relays import (
    HERE,
    NODE,
    PATH,
    PYTHON_RELAY,
    RELAY,
    WORKER_RELAY,
    answering,
    fills,
    hook,
    message,
    relaying,
    running,
)
from tokens.crypto import formats

pytestmark = [pytest.mark.processes, pytest.mark.once]

SENDER = "192.0.2.1"
PROXIED = {"RELAY_PROXY": HERE, "RELAY_SENDERS": SENDER}
PROGRAM = runpy.run_path(str(RELAY))


@pytest.fixture(scope="module")
def relay(server, bot, tmp_path_factory):
    folder = tmp_path_factory.mktemp("relay")
    with relaying(folder, hook(server), bot["secret"], **PROXIED) as relay:
        yield relay


def test_the_time_is_filled_in_as_the_platform_does(server, check, bot):
    status, said = check(message(bot, sentAt="{{timenow}}"))
    assert (status, "accepts the message: filled" in said) == (0, True), said


@pytest.fixture
def check(server, bot, relay, tmp_path, monkeypatch, capsys):
    """Runs the check with the relay's own settings, changed. Returns the status and the output.

    It runs in this process: another one would take longer to start than to check.
    """

    def run(text, **changes):
        own = {
            "RELAY_SECRET": bot["secret"],
            "RELAY_HOOK": hook(server),
            "RELAY_PATH": PATH,
            "RELAY_LISTEN": f"{HERE}:{relay.port}",
            **PROXIED,
            **changes,
        }
        file = tmp_path / "relay.env"
        file.write_text("# comment\n\n" + "".join(f"{name}={own[name]}\n" for name in own))
        monkeypatch.setattr(sys, "argv", [str(RELAY), "--settings", str(file), "--check"])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        for name in [name for name in os.environ if name.startswith("RELAY_")]:
            monkeypatch.delenv(name)
        status, fault = 0, ""
        try:
            PROGRAM["main"]()
        except SystemExit as ended:
            if isinstance(ended.code, str):
                status, fault = 1, ended.code
            else:
                status = int(ended.code or 0)
        said = "".join(capsys.readouterr()) + fault
        assert "svc_sign" not in said
        return status, said

    return run


def test_every_step_is_told_and_nothing_is_filled(server, check, bot):
    before = fills(server)
    status, said = check(message(bot))
    assert status == 0
    assert [line.split(":")[0] for line in said.splitlines()] == [
        f"ok     {step}" for step in ("settings", "relay", "signature", "hook")
    ]
    assert f"accepts the message: filled, {bot['pair']} {bot['direction']}, desks: 1" in said
    assert fills(server) == before


def test_through_the_web_server(check, bot, relay):
    status, said = check(message(bot), RELAY_URL=f"http://localhost:{relay.port}")
    assert status == 1  # nothing in front of the relay passes the sender's address
    assert "does not pass the sender's address in X-Forwarded-For" in said
    assert f"ok     web server: http://localhost:{relay.port} reaches the relay" in said


@pytest.mark.skipif(not NODE, reason="node is not installed")
def test_a_relay_at_a_serverless_platform(server, check, bot, tmp_path):
    with running(WORKER_RELAY, tmp_path, hook(server), bot["secret"]) as worker:
        status, said = check(message(bot), RELAY_URL=f"http://localhost:{worker.port}")
    assert status == 0, said
    assert "accepts the message: filled" in said


def test_a_wrong_setting_is_named(check, bot):
    status, output = check(message(bot), RELAY_URL="https://relay.example/path")
    assert status == 1
    assert "WRONG  settings: RELAY_URL must be an address without a path" in output


def test_a_line_that_is_no_setting_is_named(tmp_path):
    file = tmp_path / "relay.env"
    file.write_text("# my relay\nRELAY_SECRET svc_sign_x\n")
    command = [*PYTHON_RELAY, "--settings", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert f"Line 2 of {file} is not NAME=value." in done.stderr


def test_a_relay_that_does_not_run(check, bot):
    with socket.create_server((HERE, 0)) as gone:
        address = f"{HERE}:{gone.getsockname()[1]}"
    status, said = check(message(bot), RELAY_LISTEN=address)
    assert status == 1
    assert f"WRONG  relay: it does not run at http://{address}" in said


def test_a_relay_that_does_not_know_its_web_server(server, check, bot, tmp_path):
    """The relay closes the connection of the proxy: without RELAY_PROXY it is no sender."""
    settings = {"RELAY_SENDERS": SENDER}
    with relaying(tmp_path, hook(server), bot["secret"], **settings) as stern:
        status, said = check(message(bot), RELAY_LISTEN=f"{HERE}:{stern.port}")
    assert status == 1
    assert "WRONG  relay: it closed the connection. RELAY_PROXY must be the address" in said


def test_a_relay_that_was_not_restarted(server, check, bot, tmp_path):
    before, old = fills(server), formats.new(formats.SIGNING_SECRET)
    with relaying(tmp_path, hook(server), old, **PROXIED) as stale:
        status, said = check(message(bot), RELAY_LISTEN=f"{HERE}:{stale.port}")
    assert (status, fills(server)) == (1, before)
    assert "WRONG  403 check_invalid: The relay runs with another RELAY_SECRET" in said


def test_another_program_on_the_relays_port(check, bot):
    with answering(body=b"hi") as address:
        status, said = check(message(bot), RELAY_LISTEN=urlsplit(address).netloc)
    assert status == 1
    assert "WRONG  relay: another program answers" in said


def test_a_web_server_that_does_not_pass_the_path_on(check, bot):
    with answering("404 Not Found", b"no") as address:
        status, said = check(message(bot), RELAY_URL=address.removesuffix("/api/hooks/signal"))
    assert status == 1
    assert "answers 404 itself" in said
    assert "must pass RELAY_PATH on" in said


def test_a_web_server_that_is_not_there(check, bot):
    with socket.create_server((HERE, 0)) as gone:
        url = f"https://{HERE}:{gone.getsockname()[1]}"
    status, said = check(message(bot), RELAY_URL=url)
    assert status == 1
    assert f"WRONG  web server: nothing answers at {url}" in said


MESSAGES = {
    "422 pair_mismatch": {"pair": "SOL/USDT"},
    "message: The message contains what looks like a key": {"apiKey": "HUSH"},
}


@pytest.mark.parametrize("expected", MESSAGES)
def test_a_mistake_in_the_message_is_told_as_the_hook_tells_it(check, bot, expected):
    status, said = check(message(bot, **MESSAGES[expected]))
    assert status == 1
    assert f"WRONG  {expected}" in said
    assert "HUSH" not in said


def test_a_text_of_the_platform_is_answered_with_what_to_paste(check):
    status, said = check("ETHUSDT Crossing 2000")
    assert status == 1
    assert "WRONG  400 malformed: This is not JSON. TradingView sends a text of its own" in said


def test_each_field_that_is_wrong_is_named(check, bot):
    status, said = check(message(bot, direction="buy", nonce=7))
    assert status == 1
    assert "direction: Send one of: long, short." in said
    assert "nonce: Send 1 to 128 visible ASCII characters." in said


# The message of the page for strategies, and one of before, whose nonce holds the order's name.
STRATEGIES = {
    "of the page": ALERTS["Strategy"],
    "with the name of the order": {
        **ALERTS["Strategy"],
        "nonce": "{{strategy.order.id}}-{{interval}}-{{timenow}}",
    },
}


@pytest.mark.parametrize("of", STRATEGIES)
def test_the_message_of_a_strategy_is_checked_with_what_the_platform_fills_in(check, bot, of):
    status, said = check(message(bot, **STRATEGIES[of]))
    assert status == 0, said
    assert "accepts the message: filled" in said
    assert "ok     strategy: orders that end or reduce the position are not forwarded" in said


def test_a_relay_that_forwards_exits_is_told(check, bot, server):
    """An old relay: here one that answers every check as the hook does."""
    checked = json.dumps({"outcome": "checked", "wouldBe": "filled", "signal": {}}).encode()
    with answering(body=checked) as address:
        listen = urlsplit(address).netloc
        status, said = check(message(bot, **ALERTS["Strategy"]), RELAY_LISTEN=listen)
    assert status == 1
    assert "WRONG  relay: it forwards exits. It is an old version: replace it." in said


def test_an_order_that_is_not_forwarded_is_told(check, bot):
    fixed = {"market_position": "flat", "order_action": "sell"}
    status, said = check(message(bot, **fixed))
    assert status == 1
    assert "WRONG  message: the relay does not forward it. The position after the order" in said


def test_a_secret_of_another_bot(server, check, bot, tmp_path):
    other = formats.new(formats.SIGNING_SECRET)
    with relaying(tmp_path, hook(server), other, **PROXIED) as wrong:
        changes = {"RELAY_SECRET": other, "RELAY_LISTEN": f"{HERE}:{wrong.port}"}
        status, said = check(message(bot), **changes)
    assert status == 1
    assert "WRONG  401 signature_invalid" in said

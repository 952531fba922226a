"""One table of cases for both relays: relay.py on a server, relay.worker.js under Node."""

import hmac
import json
import secrets
import socket
import time
from contextlib import suppress
from hashlib import sha256

import httpx2
import pytest

from tests import relays
from tests.relays import (
    HERE,
    IN_TIME,
    NODE,
    PATH,
    PYTHON_RELAY,
    WORKER_RELAY,
    answering,
    fills,
    hook,
    latest,
    listening,
    losing_the_answer,
    message,
    slow_hook,
)
from tokens.crypto import formats

pytestmark = [pytest.mark.processes, pytest.mark.once]

SENDER, STRANGER = "192.0.2.1", "203.0.113.9"
HEADER = "X-Forwarded-For"
SERVICE_TAKES, PLATFORM_WAITS = 2, 3  # seconds
RELAYS = {"relay.py": PYTHON_RELAY, "relay.worker.js": WORKER_RELAY}
# Both learn the sender's address from this header: of the proxy, or of the serverless platform.
BEHIND = {
    "relay.py": {"RELAY_PROXY": HERE},
    "relay.worker.js": {"RELAY_SENDER_HEADER": HEADER},
}
needs_node = pytest.mark.skipif(not NODE, reason="node is not installed")


@pytest.fixture(
    scope="module", params=["relay.py", pytest.param("relay.worker.js", marks=needs_node)]
)
def kind(request):
    return request.param


def running(kind, folder, address, secret, in_time=False, **settings):
    own = {"RELAY_SENDERS": SENDER, **BEHIND[kind], **settings}
    return relays.running(RELAYS[kind], folder, address, secret, in_time, **own)


@pytest.fixture(scope="module")
def relay(kind, server, bot, tmp_path_factory):
    folder = tmp_path_factory.mktemp("relay")
    with running(kind, folder, hook(server), bot["secret"]) as relay:
        yield relay


@pytest.fixture
def behind(kind, bot, tmp_path):
    """Runs the relay in front of another hook."""

    def run(address, in_time=False, **settings):
        return running(kind, tmp_path, address, bot["secret"], in_time, **settings)

    return run


def send(relay, text, sender=SENDER, **more):
    return relay.alert(text, **{HEADER: sender, **more})


def code(answer):
    return answer.status_code, answer.json()["code"]


def unique(bot, **changes):
    """A message without a nonce that no other test sends."""
    return message(bot, nonce=None, at=secrets.token_hex(8), **changes)


# --- Accepted -------------------------------------------------------------------------------------


def test_an_alert_becomes_a_fill(server, relay, bot):
    answer = send(relay, message(bot))
    assert (answer.status_code, answer.json()["outcome"]) == (200, "filled")
    assert answer.headers["Content-Type"] == "application/json"
    signal_id = answer.json()["signal"]["id"]
    assert latest(server, "signal.filled")["signal"]["id"] == signal_id
    assert f"200 filled: {signal_id} (request " in relay.log()


@pytest.mark.parametrize("end", ["", " \r\n"])
def test_the_nonce_is_the_hash_of_the_alert(relay, bot, end):
    text = unique(bot, note="\u00e9 }") + end
    nonce = send(relay, text).json()["signal"]["nonce"]
    assert nonce == "relay-" + sha256(text.encode()).hexdigest()[:32]


def test_a_retry_after_a_lost_answer_fills_nothing_again(server, relay, behind, bot):
    text, before = unique(bot), fills(server)
    with losing_the_answer(server) as lossy, behind(lossy) as unlucky:
        assert send(unlucky, text).status_code == 502
    assert code(send(relay, text)) == (409, "nonce_used")
    assert fills(server) == before + 1


def test_several_secrets_sign_side_by_side(kind, server, bot, tmp_path):
    both = f"{formats.new(formats.SIGNING_SECRET)}, {bot['secret']}"
    with running(kind, tmp_path, hook(server), both) as relay:
        assert send(relay, message(bot)).status_code == 200


# --- Strategies -----------------------------------------------------------------------------------

# What TradingView fills in: the position after the order and the order. For each elected direction,
# whether the relay forwards it.
ORDERS = [
    ("an entry, addition or reversal", {"long": ("long", "buy"), "short": ("short", "sell")}, True),
    ("a partial exit", {"long": ("long", "sell"), "short": ("short", "buy")}, False),
    ("the exit", {"long": ("flat", "sell"), "short": ("flat", "buy")}, False),
    ("the same the other way", {"long": ("short", "sell"), "short": ("long", "buy")}, False),
    ("a partial exit of the other", {"long": ("short", "buy"), "short": ("long", "sell")}, False),
    ("the exit of the other", {"long": ("flat", "buy"), "short": ("flat", "sell")}, False),
]
UNFILLED = [
    ("{{strategy.market_position}}", "{{strategy.order.action}}"),
    ("long", None),
    (None, "buy"),
    ("", ""),
    ("LONG", "BUY"),
    (["long"], {"buy": 1}),
]


def of_strategy(bot, position, order, **changes):
    """The page's message for strategies, filled in for an order named "My Long Entry Id"."""
    nonce = f"60-{order}-0.5-2026-11-23T09:30:{secrets.token_hex(8)}Z"
    members = {"market_position": position, "order_action": order}
    return message(bot, **{"nonce": nonce, **members, **changes})


@pytest.mark.parametrize(("name", "orders", "forwarded"), ORDERS, ids=[name for name, *_ in ORDERS])
def test_an_order_of_a_strategy_is_forwarded_only_if_it_opens_the_elected_direction(
    server, relay, bot, name, orders, forwarded
):
    before = fills(server)
    answer = send(relay, of_strategy(bot, *orders[bot["direction"]]))
    outcome = "filled" if forwarded else "not_forwarded"
    assert (answer.status_code, answer.json()["outcome"]) == (200, outcome)
    assert fills(server) == before + forwarded
    if forwarded:
        assert answer.json()["ignored"] == []
    else:
        assert f"200 not forwarded: {answer.json()['detail']} (" in relay.log()
    other = "short" if bot["direction"] == "long" else "long"
    answer = send(relay, of_strategy(bot, *orders[other], direction=other))
    expected = {"code": "direction_mismatch"} if forwarded else {"outcome": "not_forwarded"}
    assert expected.items() <= answer.json().items()


@pytest.mark.parametrize(("position", "order"), UNFILLED)
def test_an_order_that_the_platform_did_not_fill_in_is_not_forwarded(relay, bot, position, order):
    answer = send(relay, of_strategy(bot, position, order))
    assert (answer.status_code, answer.json()["outcome"]) == (200, "not_forwarded")
    assert "not what the platform fills in for a strategy" in answer.json()["detail"]


def test_orders_that_are_not_forwarded_are_counted_in_the_log(behind, bot):
    with behind("http://127.0.0.1:9/api/hooks/signal") as relay:
        for number in (1, 2, 3):
            send(relay, of_strategy(bot, "flat", "sell", note="hidden"))
            assert f" ({number} not forwarded since the start) (request " in relay.log()
        assert "hidden" not in relay.log()


def test_a_message_with_a_wrong_direction_is_refused_by_the_hook(relay, bot):
    answer = send(relay, of_strategy(bot, "long", "buy", direction="buy"))
    assert code(answer) == (422, "invalid")


def test_a_strategys_message_without_a_nonce_gets_one_of_its_text(relay, bot):
    text = of_strategy(bot, *ORDERS[0][1][bot["direction"]], nonce=None, at=secrets.token_hex(8))
    first, second = send(relay, text), send(relay, text)
    nonce = "relay-" + sha256(text.encode()).hexdigest()[:32]
    assert first.json()["signal"]["nonce"] == nonce
    assert code(second) == (409, "nonce_used")


# Names of orders as people write them, and what else may stand in a nonce.
NONCES = [
    "My Long Entry Id-60-2026-11-23T09:30:00Z",
    "Вход в лонг-1D",
    "買い-60",
    "x" * 129,
    'Long "A"-60',
    "tab\tand\nline",
    "caf\u00e9 \U0001f680",
]


@pytest.mark.parametrize("nonce", NONCES)
def test_a_nonce_that_the_hook_does_not_accept_is_replaced_by_its_hash(relay, bot, nonce):
    nonce += secrets.token_hex(8)
    text = message(bot, nonce=nonce, note={"a": [1, "\u00e9"]})
    first, second = send(relay, text), send(relay, text)
    assert first.json()["signal"]["nonce"] == "relay-" + sha256(nonce.encode()).hexdigest()[:32]
    assert code(second) == (409, "nonce_used")
    assert second.json()["identical"]


@pytest.mark.parametrize("nonce", ["", " ", "\n"])
def test_an_empty_nonce_is_none(relay, bot, nonce):
    text = message(bot, nonce=nonce, at=secrets.token_hex(8))
    answer = send(relay, text)
    expected = "relay-" + sha256(text.encode()).hexdigest()[:32]
    assert answer.json()["signal"]["nonce"] == expected


def test_a_plain_alert_is_forwarded_byte_for_byte(behind, bot):
    received = []

    def serve(client, ended):
        while not b"".join(received).endswith(text.encode()):  # the body may come after the headers
            part = client.recv(65536)
            if not part:
                break
            received.append(part)
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        client.close()

    text = ' {"nonce" : "A-1",\t"note":"\u00e9", "x": 1.50e2}\r\n'
    with listening(serve) as address, behind(address) as relay:
        send(relay, text)
    assert b"".join(received).endswith(text.encode())


# --- Refused by the relay -------------------------------------------------------------------------


def test_another_path_is_refused(relay, bot):
    for path in ("/guess", PATH + "x", PATH[:-1], f"{PATH}?a=b", "/"):
        assert code(send(relay, message(bot), path=path)) == (404, "no_such_path")


def test_another_sender_is_refused(server, relay, bot):
    before = fills(server)
    for hops in (STRANGER, f"{SENDER}, {STRANGER}"):
        assert code(send(relay, message(bot), sender=hops)) == (403, "sender_unknown")
    assert f"403 sender_unknown: {STRANGER} is not in RELAY_SENDERS." in relay.log()
    assert send(relay, message(bot), sender=f"{STRANGER}, {SENDER}").status_code == 200
    assert fills(server) == before + 1


def test_an_alert_without_a_senders_address_is_refused_with_what_to_do(relay, bot):
    answer = relay.alert(message(bot))
    assert code(answer) == (403, "sender_unknown")
    assert HEADER in answer.json()["detail"]


@needs_node
def test_a_platform_that_sets_no_header_must_have_it_named(server, bot, tmp_path):
    """Anybody can send Cloudflare's header to another platform."""
    forged = {"CF-Connecting-IP": SENDER}
    for named, expected in ((None, (500, "settings_wrong")), (HEADER, (403, "sender_unknown"))):
        own = {"PLATFORM": "other", "RELAY_SENDER_HEADER": named}
        with running("relay.worker.js", tmp_path, hook(server), bot["secret"], **own) as relay:
            answer = relay.alert(message(bot), **forged)
            assert code(answer) == expected
            assert "RELAY_SENDER_HEADER" in answer.json()["detail"]


def test_only_the_platforms_addresses_are_allowed_by_default(behind, bot):
    with answering() as address, behind(address, RELAY_SENDERS=None) as relay:
        for sender in ("52.89.214.238", "34.212.75.30", "54.218.53.128", "52.32.178.7"):
            assert send(relay, message(bot), sender=sender).status_code == 200
        assert send(relay, message(bot)).status_code == 403


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_only_post_is_an_alert(relay, method):
    answer = httpx2.request(method, relay.url(), headers={HEADER: SENDER}, trust_env=False)
    assert code(answer) == (405, "not_an_alert")


def test_a_long_alert_is_refused(relay):
    assert code(send(relay, "x" * (64 * 1024 + 1))) == (413, "body_too_large")


FORBIDDEN = [
    '{"apiKey": "HUSH"}',
    '{"a": [{"Pass-Phrase" : "HUSH"}]}',
    '{"a": {"api_secret": "HUSH"}, "a": 1}',
    '{"\\u0061piKey": "HUSH"}',
    '{"key": "HUSH"',
    "secret=HUSH",
    '{"note": "-----BEGIN EC PRIVATE KEY-----HUSH"}',
    json.dumps({"note": formats.new(formats.SIGNING_SECRET)}),
]


def test_an_exchange_secret_does_not_leave_the_relay(behind):
    """The hook is never called."""
    called = []
    with answering(heard=called) as address, behind(address) as relay:
        for text in FORBIDDEN:
            answer = send(relay, text)
            assert code(answer) == (422, "exchange_secret"), text
            assert called == [], text
            for said in (answer.text, relay.log()):
                assert "HUSH" not in said, text
                assert "svc_" not in said, text


@pytest.mark.parametrize(
    "changes", [{"note": "keys: 1"}, {"secretary": 1}, {"signal": "a=b"}, {"ticker": "A:B"}]
)
def test_a_message_without_a_secret_is_forwarded(relay, bot, changes):
    assert send(relay, message(bot, **changes)).status_code == 200


# --- Refused by the hook --------------------------------------------------------------------------


def test_a_refusal_of_the_hook_is_returned_and_logged(server, relay, bot):
    answer = send(relay, message(bot, pair="SOL/USDT"))
    assert code(answer) == (422, "pair_mismatch")
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert f"422 pair_mismatch: {answer.json()['detail']} (request " in relay.log()
    assert latest(server, "signal.refused")["data"]["code"] == "pair_mismatch"


@pytest.mark.parametrize("text", ['{"a":1,"a":2}', '{"a":NaN}', ' {"a":' * 9000])
def test_what_is_no_valid_json_is_forwarded_unchanged(relay, text):
    answer = send(relay, text)
    assert code(answer) == (400, "malformed")
    assert "Send one JSON object in UTF-8." in answer.json()["detail"]


def test_a_text_of_the_platform_is_not_forwarded_and_answered_with_what_to_paste(behind):
    called = []
    with answering(heard=called) as address, behind(address) as relay:
        for text in ("", "[]", "[" * 20000, "ETHUSDT Crossing 2000"):
            logged, answer = len(relay.log()), send(relay, text)
            assert code(answer) == (400, "malformed"), text
            assert "paste the message of the bot's page into the alert" in answer.json()["detail"]
            said = f"400 malformed: {answer.json()['detail']} (request "
            assert said in relay.log()[logged:], text
    assert called == []


# --- What the platform hears when the hook does not speak -----------------------------------------


def test_a_5xx_of_the_service_makes_the_platform_retry(behind, bot):
    statuses = {500: 500, 503: 503, 504: 503}
    left = list(statuses)

    def serve(client, ended):
        with client:
            client.recv(65536)
            client.sendall(b"HTTP/1.1 %d Away\r\nContent-Length: 2\r\n\r\n{}" % left.pop(0))

    with listening(serve) as address, behind(address) as relay:
        answers = [send(relay, message(bot)) for _ in statuses]
    assert [each.status_code for each in answers] == list(statuses.values())
    assert {each.content for each in answers} == {b"{}"}


@pytest.mark.parametrize("drips", [False, True], ids=["silent", "a byte at a time"])
def test_a_service_that_never_answers_is_reported_as_slow(behind, bot, drips):
    """The service may take two seconds, and the platform gives up after three."""
    took = float(PLATFORM_WAITS)
    with slow_hook(drips) as address, behind(address, IN_TIME) as relay:
        for _ in range(20):  # a busy machine may delay an answer, and does not delay all of them
            began = time.monotonic()
            with suppress(httpx2.TransportError):  # it hung up on the platform before the answer
                assert code(send(relay, message(bot))) == (503, "hook_slow")
                took = min(took, time.monotonic() - began)
            if took < PLATFORM_WAITS:
                break
    assert SERVICE_TAKES < took < PLATFORM_WAITS


def test_an_unavailable_service_is_a_502(behind, bot):
    with socket.create_server((HERE, 0)) as gone:
        port = gone.getsockname()[1]
    with behind(f"http://{HERE}:{port}/api/hooks/signal") as relay:
        assert code(send(relay, message(bot))) == (502, "hook_away")


# --- Checks ---------------------------------------------------------------------------------------


def proof(secret, at=None):
    stamp = str(int(time.time()) if at is None else at)
    mac = hmac.new(secret.encode(), f"check.{stamp}".encode(), "sha256").hexdigest()
    return f"{stamp}.{mac}"


def test_a_check_fills_nothing_and_may_come_from_anywhere(server, relay, bot):
    before, text = fills(server), unique(bot)
    for _ in range(2):
        answer = send(relay, text, STRANGER, **{"X-Relay-Check": proof(bot["secret"])})
        assert (answer.status_code, answer.json()["outcome"]) == (200, "checked")
    assert fills(server) == before
    assert send(relay, text).json()["outcome"] == "filled"


def test_a_check_that_does_not_know_the_secret_is_refused(server, relay, bot):
    """Even from an allowed sender: a check must never fill."""
    before, now = fills(server), int(time.time())
    for header in (
        "",
        "x",
        str(now),
        proof(formats.new(formats.SIGNING_SECRET)),
        proof(bot["secret"], now - 600),
        proof(bot["secret"], now + 600),
    ):
        answer = send(relay, message(bot), **{"X-Relay-Check": header})
        assert code(answer) == (403, "check_invalid")
    assert fills(server) == before


# --- Settings and log -----------------------------------------------------------------------------


def test_the_log_contains_no_secret(relay, bot):
    send(relay, message(bot))
    send(relay, message(bot, note="hidden", pair="SOL/USDT"))
    send(relay, "{}", path="/nothing/here")
    for secret in (bot["secret"], PATH, "hidden", "nothing/here", "v1="):
        assert secret not in relay.log()


def test_an_answer_of_the_hook_cannot_break_a_line_of_the_log(behind, bot):
    said = json.dumps({"code": "x", "detail": "one\r\ntwo"}).encode()
    with answering("422 No", said) as address, behind(address) as relay:
        send(relay, message(bot))
        assert "422 x: one  two (request " in relay.log()


WRONG = {
    "RELAY_SECRET is empty": {"RELAY_SECRET": ""},
    "RELAY_SECRET must be the complete signing secret": {"RELAY_SECRET": "svc_sign_short"},
    "RELAY_HOOK must be": {"RELAY_HOOK": "no address"},
    "RELAY_HOOK must": {"RELAY_HOOK": "http://signals.example/api/hooks/signal"},
    "RELAY_PATH must be a path": {"RELAY_PATH": "/short"},
}


@needs_node
@pytest.mark.parametrize("said", WRONG)
def test_the_worker_answers_a_wrong_setting_with_what_is_wrong(bot, tmp_path, said):
    """relay.py does not start: test_relay.py."""
    address = "http://127.0.0.1:9/api/hooks/signal"
    with running("relay.worker.js", tmp_path, address, bot["secret"], **WRONG[said]) as relay:
        answer = send(relay, message(bot))
    assert code(answer) == (500, "settings_wrong")
    assert said in answer.json()["detail"]
    assert "svc_sign" not in answer.text

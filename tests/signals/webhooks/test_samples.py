"""The samples on the pages verify a delivery as they are pasted. Only the port is another."""

import json
import shutil
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from subprocess import PIPE, STDOUT, Popen

import httpx2
import pytest
from standardwebhooks import Webhook

from signals.contract.sample_code import plain_text
from signals.webhooks.messages import is_proof, message_of_test, new_challenge
from signals.webhooks.pages import receivers
from tests.server import free_port
from tokens.crypto import formats

# Go compiles its library before the first run.
pytestmark = [pytest.mark.once, pytest.mark.processes]

SECRET = formats.new_webhook_secret()
BODY = '{"type":"signal.filled","timestamp":"2026-11-20T09:30:00.000Z","data":{"pair":"Ü/USDT"}}'
# The name of each language's file, and the command that runs it.
PROGRAMS = {
    "Python": ("receiver.py", [sys.executable, "receiver.py"]),
    "Node": ("receiver.js", ["node", "receiver.js"]),
    "PHP": ("receiver.php", ["php", "-S", "127.0.0.1:{port}", "receiver.php"]),
    "Go": ("receiver.go", ["./receiver"]),
}
NEEDED = {"Node": "node", "PHP": "php", "Go": "go"}


@contextmanager
def running(language, folder):
    """The sample as a process that listens. Yields its address and the process."""
    needed = NEEDED.get(language)
    if needed and not shutil.which(needed):
        pytest.skip(f"{needed} is not installed")
    (name, command), port = PROGRAMS[language], free_port()
    [code] = [one.code for one in receivers(SECRET) if one.language == language]
    (folder / name).write_text(code.replace("8081", str(port)))
    if language == "Go":  # "go run" would leave its child behind when it is killed
        subprocess.run(["go", "build", "-o", "receiver", name], cwd=folder, check=True, timeout=500)
    command = [part.format(port=port) for part in command]
    transport = httpx2.HTTPTransport(retries=8)  # until it listens
    with (
        Popen(command, stdout=PIPE, stderr=STDOUT, cwd=folder) as process,
        httpx2.Client(base_url=f"http://127.0.0.1:{port}", transport=transport) as client,
    ):
        try:
            yield client, process
        finally:
            process.kill()


def headers(*secrets: str, age: int = 0, body: str = BODY) -> dict[str, str]:
    """The headers of a delivery, signed by the library of Standard Webhooks."""
    at = datetime.now(UTC) - timedelta(seconds=age)
    signatures = [Webhook(secret).sign("evt_7_4f1c2a90", at, body) for secret in secrets]
    return {
        "webhook-id": "evt_7_4f1c2a90",
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(signatures),
    }


@pytest.mark.parametrize("language", PROGRAMS)
def test_a_receiver_takes_what_was_signed_and_refuses_everything_else(language, tmp_path):
    other = formats.new_webhook_secret()
    asked = {
        "signed": headers(SECRET),
        "signed in an overlap": headers(other, SECRET),
        "signed by another": headers(other),
        "too old": headers(SECRET, age=3600),
        "of another body": headers(SECRET, body=BODY + " "),
        "not signed": {},
    }
    with running(language, tmp_path) as (client, process):
        answers = {
            what: client.post("/", content=BODY.encode(), headers=sent).status_code
            for what, sent in asked.items()
        }
        challenge = new_challenge()
        test = message_of_test("sub_1", datetime.now(UTC), challenge).body.decode()
        proven = client.post("/", content=test, headers=headers(SECRET, body=test))
        forged = client.post("/", content=test, headers=headers(other, body=test))
        process.kill()
        said = process.stdout.read().decode()
    taken = ("signed", "signed in an overlap")
    assert answers == {what: 204 if what in taken else 400 for what in asked}
    assert proven.status_code == 200
    assert is_proof(proven.content, challenge, [SECRET])
    assert forged.status_code == 400
    assert challenge not in forged.text
    assert not is_proof(forged.content, challenge, [SECRET])
    assert said.count("evt_7_4f1c2a90") == 3


# What a stranger may send instead of the headers of a delivery, and as its body.
MALFORMED = {
    "webhook-id": ["", b"\xff", "x" * 1000],
    "webhook-timestamp": ["", "soon", "nan", "inf", "-1", "1e400", "9" * 30, b"\xff"],
    "webhook-signature": ["", "v1", "v1,", "v1,%%%", "v1,a", "v1,a,b", "x", b"v1,\xff", "v1,= ,"],
}
CUT_OFF = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{"
LENGTH = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n"
WITHOUT_LENGTH = b"POST / HTTP/1.0\r\nHost: a\r\n\r\n"


@pytest.mark.parametrize("language", PROGRAMS)
def test_whatever_a_stranger_sends_to_a_receiver_it_refuses_that_and_goes_on(language, tmp_path):
    asked = [(name, value, BODY.encode()) for name in MALFORMED for value in MALFORMED[name]]
    asked.append(("webhook-id", "evt_1", b"\xff"))
    with running(language, tmp_path) as (client, _):
        client.post("/", content=BODY.encode(), headers=headers(SECRET)).raise_for_status()
        for name, value, body in asked:
            sent = {**headers(SECRET), name: value}
            assert client.post("/", content=body, headers=sent).status_code == 400, sent
        assert b" 400 " in _send(client.base_url.port, WITHOUT_LENGTH)
        _send(client.base_url.port, CUT_OFF)
        answer = client.post("/", content=BODY.encode(), headers=headers(SECRET))
    assert answer.status_code == 204


@pytest.mark.parametrize("language", PROGRAMS)
def test_a_receiver_takes_no_body_that_is_longer_than_any_message(language, tmp_path):
    long = json.dumps({**json.loads(BODY), "more": "x" * 2**20})
    with running(language, tmp_path) as (client, process):
        client.post("/", content=BODY.encode(), headers=headers(SECRET)).raise_for_status()
        with suppress(httpx2.NetworkError, httpx2.RemoteProtocolError):  # it may hang up instead
            answer = client.post("/", content=long, headers=headers(SECRET, body=long))
            assert answer.status_code == 400
        client.post("/", content=BODY.encode(), headers=headers(SECRET)).raise_for_status()
        process.kill()
        said = process.stdout.read().decode()
    assert said.count("evt_7_4f1c2a90") == 2


@pytest.mark.parametrize("language", ["Python", "Node"])  # the others leave it to their server
def test_a_receiver_refuses_a_length_that_is_none(language, tmp_path):
    with running(language, tmp_path) as (client, _):
        client.post("/", content=BODY.encode(), headers=headers(SECRET)).raise_for_status()
        for length in ("9" * 20, "-1", "soon"):
            request = LENGTH.format(length).encode()
            assert b" 400 " in _send(client.base_url.port, request, hang_up=False), length


@pytest.mark.parametrize("language", PROGRAMS)
def test_strangers_who_keep_connections_open_hold_up_no_delivery(language, tmp_path):
    """Together they would hold up one for 50 s, where each is cut off after 10."""
    with running(language, tmp_path) as (client, _), ExitStack() as strangers:
        client.post("/", content=BODY.encode(), headers=headers(SECRET)).raise_for_status()
        for sent in (b"", CUT_OFF, b"", CUT_OFF, b""):
            address = ("127.0.0.1", client.base_url.port)
            strangers.enter_context(socket.create_connection(address)).sendall(sent)
        signed = headers(SECRET)
        answer = client.post("/", content=BODY.encode(), headers=signed, timeout=40)
    assert answer.status_code == 204


def _send(port, request, *, hang_up=True):
    """Sends this, and returns what comes until the receiver has closed the connection, too."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(request)
        if hang_up:
            connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_no_receiver_listens_where_a_relay_does():
    relay = plain_text("relay/settings.env").partition("RELAY_LISTEN=")[2].split()[0]
    port = relay.rpartition(":")[2]
    assert port.isdecimal()
    assert [one.language for one in receivers() if port in one.code] == []

"""A request is decided when its last byte arrives, by the state at that time.

Against the service itself: its authentication is done while the last byte is still to come.
"""

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPResponse
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.server import Server, manage, serving

pytestmark = [pytest.mark.processes, pytest.mark.once]

ANSWER_TIMEOUT = 60  # seconds
# Waits until the token was used. A server that buffers authenticates later: then it waits in vain.
WAIT_FOR_USE = """
import time
from tokens.models import Token
used = Token.objects.filter(name="Engine", last_used_at__isnull=False)
for _ in range(20):
    if used.exists():
        break
    time.sleep(0.1)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(WEB_CONCURRENCY="1") as server:
        yield server


def half_sent(server: Server, path: str, body: dict) -> tuple[socket.socket, bytes]:
    """A connection that sent all but the last byte of a request, and that byte."""
    address, content = urlsplit(server.base_url), json.dumps(body).encode()
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {address.netloc}",
        f"Authorization: Bearer {server.seed['platformToken']}",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
        "Connection: close",
    ]
    client = socket.create_connection((address.hostname, address.port), ANSWER_TIMEOUT)
    client.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + content[:-1])
    return client, content[-1:]


def answer(client: socket.socket) -> tuple[int, dict]:
    with closing(client), closing(HTTPResponse(client)) as response:
        response.begin()
        return response.status, json.loads(response.read())


def test_a_token_revoked_before_the_last_byte_of_the_request_is_refused(server):
    elected = {name: server.seed["card"][name] for name in ("pair", "direction")}
    said = {**elected, "elected": True, "source": "floor"}
    deploy = f"/api/v1/desks/{server.seed['desks'][1]['userId']}/signal"
    waiting = [
        half_sent(server, deploy, {**said, "nonce": "deploy"}),
        half_sent(server, "/api/hooks/signal", {**said, "nonce": "fan-out", "fanout": True}),
        half_sent(server, deploy, {**said, "nonce": "refused", "pair": "NOT/IT"}),
    ]
    manage(server, "shell", "-c", WAIT_FOR_USE)
    with httpx2.Client(base_url=server.base_url, trust_env=False) as http:
        own = {"Authorization": f"Bearer {server.seed['platformToken']}"}
        assert http.delete("/api/v1/tokens", headers=own).status_code == 200
        for client, last_byte in waiting:
            client.sendall(last_byte)
            status, problem = answer(client)
            assert (status, problem["code"]) == (401, "token_invalid")
        reader = {"Authorization": f"Bearer {server.seed['readToken']}"}
        page = http.get("/api/v1/events?order=desc&limit=1", headers=reader).json()
    assert page["events"][0]["kind"] == "token.revoked"

"""Load with wrk over sixteen connections or more. Every request is different.

wrk takes the smallest share of the cores among the generators that can send a different body and
signature each time: one thread, which reads prepared requests from a file. ``Round.generator`` says
which share that was.
"""

import json
import resource
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import httpx2

from tests.bench.line import Effort, Round
from tests.server import Server
from tokens.crypto import signing

Name = TypeVar("Name")

SCRIPT = Path(__file__).with_name("push.lua")
CONNECTIONS = 16
MANY = 64
# More than a machine answers in a second, so that no request is sent twice.
REQUESTS_A_SECOND = 6000


@dataclass(frozen=True, slots=True)
class Load:
    """A kind of request: URL, headers, whether it is signed, and whether it is refused."""

    url: str
    body: dict[str, object] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    secret: str | None = None
    age: int = 0
    refused: bool = False

    def measure(self, seconds: int, connections: int = CONNECTIONS) -> Round:
        """Runs one round. Fails if a single answer is wrong."""
        with tempfile.NamedTemporaryFile("w", suffix=".requests") as file:
            count = seconds * REQUESTS_A_SECOND
            file.writelines(f"{line}\n" for line in self.lines(count))
            file.flush()
            before = _cpu_of_finished_programs()
            measured = json.loads(self._wrk(file.name, seconds, connections))
            used = _cpu_of_finished_programs() - before
        wrong = measured["requests"] - measured["not_2xx"] if self.refused else measured["not_2xx"]
        assert not wrong, f"{wrong} wrong answers of {measured['requests']} from {self.url}"
        assert not measured["broken"], f"{measured['broken']} broken connections to {self.url}"
        if not measured["requests"]:  # none was answered in time, on a machine with other work
            return self.measure(2 * seconds, connections)
        lasted = measured["microseconds"] / 1_000_000
        rate = measured["requests"] / lasted
        return Round(rate, measured["p50"], measured["p99"], generator=used / lasted)

    def _wrk(self, requests: str, seconds: int, connections: int) -> str:
        headers = [f"-H{name}: {value}" for name, value in self.headers.items()]
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout=20s", *headers]
        done = subprocess.run(
            [*command, f"-s{SCRIPT}", self.url, "--", requests, *self.signing_headers],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.splitlines()[-1]

    @property
    def signing_headers(self) -> list[str]:
        """The names of the headers whose values precede the body in each line."""
        return [signing.TIMESTAMP_HEADER, signing.SIGNATURE_HEADER] if self.secret else []

    def lines(self, count: int) -> Iterator[str]:
        """The requests, each with a new nonce. A request without a body needs only one line."""
        now = int(time.time()) - self.age
        for _ in range(count if self.body else 1):
            body = json.dumps({**self.body, "nonce": uuid.uuid4().hex}) if self.body else ""
            if self.secret:
                yield f"{now}\t{signing.sign(self.secret, now, body.encode())}\t{body}"
            else:
                yield body


def _cpu_of_finished_programs() -> float:
    """The seconds of CPU of all programs that this process started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}


def signal(card: dict[str, str], **fields: object) -> dict[str, object]:
    same = {"pair": card["pair"], "direction": card["direction"], "elected": True}
    return {**same, "source": "floor", **fields}


def engine(server: Server) -> httpx2.Client:
    """A client with the platform's token, for single requests."""
    headers = bearer(server.seed["platformToken"])
    return httpx2.Client(base_url=server.base_url, headers=headers, trust_env=False, timeout=60)


def send(sender: httpx2.Client, card: dict[str, str], user_id: str | None = None) -> dict[str, Any]:
    """Sends a fan-out, or a signal to one desk. Returns the signal of the answer."""
    target: dict[str, object] = {"userId": user_id} if user_id else {"fanout": True}
    body = {**signal(card, **target), "nonce": uuid.uuid4().hex}
    answer = sender.post("/api/hooks/signal", json=body)
    assert answer.status_code == 200, answer.text
    accepted: dict[str, Any] = answer.json()["signal"]
    return accepted


def deploy(server: Server) -> Load:
    """A deploy to one desk, with a Bearer token."""
    path = f"/api/v1/desks/{server.seed['desks'][0]['userId']}/signal"
    headers = bearer(server.seed["platformToken"])
    return Load(server.base_url + path, signal(server.seed["card"]), headers)


def push(server: Server, **more: Any) -> Load:
    """A signed signal of an automation."""
    bot = server.seed["automation"]
    body = signal(bot, botId=bot["botId"], source="tradingview")
    return Load(f"{server.base_url}/api/hooks/signal", body, secret=bot["secret"], **more)


def insert(bare: Server) -> Load:
    """A request to the baseline."""
    return Load(f"{bare.base_url}/insert", signal(bare.seed["card"]))


def empty(bare: Server) -> Load:
    """A request to the view that does nothing, with the body of a signal."""
    return Load(f"{bare.base_url}/empty", signal(bare.seed["card"]))


def bad_checksum(server: Server) -> Load:
    """A deploy with a mistyped token."""
    good = deploy(server)
    token = server.seed["platformToken"]
    wrong = token[:-1] + ("0" if token[-1] != "0" else "1")
    return Load(good.url, good.body, bearer(wrong), refused=True)


def stale_timestamp(server: Server) -> Load:
    """A signed signal that is an hour old."""
    return push(server, age=3600, refused=True)


def fan_out(server: Server) -> Load:
    """A fan-out, with a Bearer token."""
    headers = bearer(server.seed["platformToken"])
    body = signal(server.seed["card"], fanout=True)
    return Load(f"{server.base_url}/api/hooks/signal", body, headers)


def read(server: Server, path: str, **parameters: object) -> Load:
    """A page of a list."""
    query = urlencode({"limit": 1000, **parameters})
    headers = bearer(server.seed["platformToken"])
    return Load(f"{server.base_url}{path}?{query}", headers=headers)


def interleaved(
    loads: Mapping[Name, Load], effort: Effort, connections: int = CONNECTIONS
) -> dict[Name, list[Round]]:
    """Runs the rounds of each load in turn, after a short warm-up round."""
    if effort.whole:
        for load in loads.values():
            load.measure(1, connections)
    results: dict[Name, list[Round]] = {name: [] for name in loads}
    for _ in range(effort.rounds):
        for name, load in loads.items():
            results[name].append(load.measure(effort.seconds, connections))
    return results

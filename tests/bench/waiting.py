"""Measures the cost of fifty waiting readers: the rate of signals with and without them.

    TEST_DATABASE_URL=postgres://… TEST_REDIS_URL=redis://… python -m tests.bench.waiting

Signals go to one desk, and the readers wait for events of other desks. Rounds with and without
readers alternate, and their medians are compared. One fan-out after each round with readers reaches
all of them, and the slowest delivery is printed.
"""

import itertools
import json
import statistics
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from tests.server import Server, manage, serving

READERS, PUSHERS, ROUNDS, SECONDS = 50, 4, 5, 5
SETTLING = 3  # seconds until all readers wait
MINT = """
import json
from desks.models import Desk
from tokens.actions import mint_desk_token
desks = Desk.objects.order_by("-id")[:{count}]
print(json.dumps([mint_desk_token(desk=desk)[0] for desk in desks]))
"""


@dataclass
class Reader:
    """A desk that waits at the feed. ``heard`` is when its last event came."""

    client: httpx2.Client
    after: str
    heard: float = 0.0
    waited: int = 0

    def follow(self, over: threading.Event) -> None:
        while not over.is_set():
            page = self.client.get(
                "/api/v1/events", params={"after": self.after, "wait": 25}
            ).json()
            self.after = page["next"]
            self.waited += 1
            if page["events"]:
                self.heard = time.monotonic()


def client(server: Server, token: str) -> httpx2.Client:
    return httpx2.Client(
        base_url=server.base_url,
        headers={"Authorization": f"Bearer {token}"},
        timeout=30,
        trust_env=False,
    )


def signal(server: Server, **fields: object) -> dict[str, object]:
    card = server.seed["card"]
    body = {"elected": True, "source": "floor", "nonce": uuid.uuid4().hex, **fields}
    return {**body, "pair": card["pair"], "direction": card["direction"]}


def push_rate(server: Server, engines: list[httpx2.Client]) -> float:
    """Accepted signals a second."""
    end = time.monotonic() + SECONDS
    user_id = server.seed["desks"][0]["userId"]

    def push(engine: httpx2.Client) -> int:
        for count in itertools.count():
            if time.monotonic() > end:
                return count
            body = signal(server, userId=user_id)
            engine.post("/api/hooks/signal", json=body).raise_for_status()
        raise AssertionError

    with ThreadPoolExecutor(len(engines)) as threads:
        return sum(threads.map(push, engines)) / SECONDS


@contextmanager
def waiting(server: Server, clients: list[httpx2.Client]) -> Iterator[list[Reader]]:
    """Waiting readers, one for each client."""
    over, readers = threading.Event(), []
    for reading in clients:
        tail = reading.get("/api/v1/events", params={"order": "desc", "limit": 1}).json()
        readers.append(Reader(reading, tail["next"]))
    threads = [threading.Thread(target=reader.follow, args=(over,)) for reader in readers]
    for thread in threads:
        thread.start()
    time.sleep(SETTLING)
    try:
        yield readers
    finally:
        over.set()
        slowest_to_hear(server, readers)  # sends an event that ends every wait
        for thread in threads:
            thread.join()


def slowest_to_hear(server: Server, readers: list[Reader]) -> float:
    """The seconds from a fan-out's acceptance until the last reader has received it."""
    with client(server, server.seed["platformToken"]) as engine:
        body = signal(server, fanout=True)
        began = time.monotonic()
        engine.post("/api/hooks/signal", json=body).raise_for_status()
    while any(reader.heard < began for reader in readers) and time.monotonic() < began + 10:
        time.sleep(0.005)
    return max(reader.heard for reader in readers) - began


def beyond(server: Server, token: str) -> float:
    """The seconds that the third reader of one token waits, for which no place is left."""
    tail = client(server, token).get("/api/v1/events", params={"order": "desc", "limit": 1}).json()
    ask = {"after": tail["next"], "wait": 2}

    def wait(_: int) -> float:
        began = time.monotonic()
        with client(server, token) as reading:
            reading.get("/api/v1/events", params=ask)
        return time.monotonic() - began

    with ThreadPoolExecutor(8) as threads:
        return min(threads.map(wait, range(8)))


def main() -> None:
    settings: Any = {"THREADS": str(READERS + 14), "WAITING_READERS": str(2 * READERS)}
    with serving(ready=READERS + 10, **settings) as server:
        tokens = json.loads(
            manage(server, "shell", "-c", MINT.format(count=READERS)).splitlines()[-1]
        )
        engines = [client(server, server.seed["platformToken"]) for _ in range(PUSHERS)]
        desks = [client(server, token) for token in tokens]
        push_rate(server, engines)  # warm
        without, beside, slowest = [], [], []
        for _ in range(ROUNDS):
            without.append(push_rate(server, engines))
            with waiting(server, desks) as readers:
                beside.append(push_rate(server, engines))
                with ThreadPoolExecutor(1) as pushing:
                    pushing.submit(push_rate, server, engines)
                    slowest.append(slowest_to_hear(server, readers))
        report = {
            "readers": READERS,
            "pushes a second without": statistics.median(without),
            "pushes a second with": statistics.median(beside),
            "ratio": statistics.median(beside) / statistics.median(without),
            "slowest to hear, seconds": max(slowest),
            "beyond the seats, seconds": beyond(server, tokens[0]),
        }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()

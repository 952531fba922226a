"""Receives deploys in one process, without HTTP.

Reads a JSON object from standard input, the keywords of ``batches.Asked``, and prints one, the
keywords of ``batches.Found``. Run in the environment of a server, whose database it writes to, with
a connection for each thread (THREADS).
"""

import json
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict

import django
from django.db import connection
from django.test.utils import CaptureQueriesContext
from prometheus_client import REGISTRY

django.setup()

from signals.intake import recording  # noqa: E402 - Django must be set up first
from signals.intake.decision import Candidate, LawfulSignal  # noqa: E402
from signals.intake.group_commit import Job  # noqa: E402
from signals.intake.incoming_signal import IncomingSignal  # noqa: E402
from signals.intake.models import Signal  # noqa: E402
from signals.intake.receive import parse_lawful, receive  # noqa: E402
from tests.bench.batches import BATCHES, LOCK, Asked, Found, Received, Turn  # noqa: E402
from tokens.models import Token  # noqa: E402


class Sender:
    """An engine that deploys to one desk."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._token = Token.objects.filter(desk=None, can_write=True).earliest("id")

    def signals(self) -> Iterator[IncomingSignal]:
        while True:
            body = {**self._asked.body, "nonce": uuid.uuid4().hex}
            yield IncomingSignal(body, self._token, deploy_to=self._asked.user_id)

    def write_batch(self, size: int) -> None:
        """Writes a batch of exactly this size, as the leader of a queue does."""
        jobs: list[Job[Candidate, Signal]] = [
            Job(LawfulSignal(incoming, parse_lawful(incoming)))
            for incoming, _ in zip(self.signals(), range(size), strict=False)
        ]
        recording.write(lambda: jobs)
        for job in jobs:
            job.result()  # raises a refusal


def main() -> None:
    asked = Asked(**json.load(sys.stdin))
    sender = Sender(asked)
    found = Found(_threads(sender, asked), _turns(sender, asked), _statements(sender, asked))
    print(json.dumps(asdict(found)))


def _threads(sender: Sender, asked: Asked) -> dict[int, list[Received]]:
    """The rounds of each number of threads, in turn, after one signal of each thread."""
    for count in asked.threads:
        _receive(sender, count, seconds=0)
    rounds: dict[int, list[Received]] = {count: [] for count in asked.threads}
    for _ in range(asked.rounds):
        for count in asked.threads:
            rounds[count].append(_receive(sender, count, asked.seconds))
    return rounds


def _receive(sender: Sender, count: int, seconds: float) -> Received:
    """Receives for some seconds in ``count`` threads."""
    before, began, finished = _counted(), time.perf_counter(), [0] * count

    def work(own: int) -> None:
        for incoming in sender.signals():
            receive(incoming)
            finished[own] += 1
            if time.perf_counter() > began + seconds:
                return connection.close()

    threads = [threading.Thread(target=work, args=(own,)) for own in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = sum(finished) / (time.perf_counter() - began)
    turns, signals, locked = (now - then for now, then in zip(_counted(), before, strict=True))
    return Received(rate, signals / turns, locked / turns)


def _turns(sender: Sender, asked: Asked) -> list[Turn]:
    """Turns of batches of exactly these sizes, in this thread."""
    turns = []
    for _ in range(asked.rounds * 20):
        for size in asked.sizes:
            before = _counted()
            sender.write_batch(size)
            turns.append(Turn(size, _counted()[2] - before[2]))
    return turns


def _statements(sender: Sender, asked: Asked) -> int:
    """The SQL statements of the largest batch, including BEGIN and COMMIT."""
    with CaptureQueriesContext(connection) as queries:
        sender.write_batch(max(asked.sizes))
    return len(queries)


def _counted() -> tuple[float, float, float]:
    """The turns that this process has taken, their signals, and the seconds of the lock."""
    names = (f"{BATCHES}_count", f"{BATCHES}_sum", f"{LOCK}_sum")
    turns, signals, locked = (REGISTRY.get_sample_value(name) or 0.0 for name in names)
    return turns, signals, locked


if __name__ == "__main__":
    main()

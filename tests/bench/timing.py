"""Tests that the time of a refusal does not depend on the guess: Welch's t over 100,000 samples.

    python -m tests.bench.timing [SAMPLES]

It calls the authentication classes in this process, on a new database. It compares a token that
begins like a valid one with a random token, and a signature whose first 60 digits are right with a
wrong signature. The guesses of a pair come in random order. The slowest twentieth of all samples is
left out. A |t| below 4.5 shows no difference; otherwise the exit status is 1.
"""

import gc
import json
import math
import os
import random
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import django
from django.db import connection

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
os.environ["TIMESTAMP_TOLERANCE"] = "86400"  # the samples take longer than 300 s
django.setup()

from rest_framework.authentication import BaseAuthentication  # noqa: E402 - after the settings
from rest_framework.request import Request  # noqa: E402
from rest_framework.test import APIRequestFactory  # noqa: E402

from events.http.refusals import Refused  # noqa: E402
from signals.intake.authentication import SignerAuthentication  # noqa: E402
from tests import factories  # noqa: E402
from tokens.callers.authentication import BearerAuthentication  # noqa: E402
from tokens.crypto import formats, signing  # noqa: E402

SAMPLES, WARMING, THRESHOLD, KEPT = 100_000, 1_000, 4.5, 0.95


@dataclass(frozen=True, slots=True)
class Guess:
    """A request that authentication refuses."""

    door: BaseAuthentication
    headers: dict[str, str]
    body: bytes = b""

    def nanoseconds(self) -> int:
        """The nanoseconds of a refusal of a new request."""
        request = APIRequestFactory().generic(
            "POST", "/api/hooks/signal", self.body.decode(), headers=self.headers
        )
        asked = Request(request)
        start = time.perf_counter_ns()
        try:
            self.door.authenticate(asked)
        except Refused:
            return time.perf_counter_ns() - start
        raise AssertionError("A guess was let in.")


Pair = tuple[Guess, Guess]


def pairs() -> Iterator[tuple[str, Pair]]:
    """The pairs of guesses to compare, by name."""
    living = factories.a_platform_token()
    near = living[:-7] + ("A" if living[-7] != "A" else "B")
    yield (
        "token, right prefix - wrong",
        (by_token(near + formats.checksum(near)), by_token(formats.new(formats.PLATFORM_TOKEN))),
    )
    bot = factories.a_bot(factories.a_ready_desk(factories.a_card()))
    yield "signature, right prefix - wrong", (by_signature(bot, 60), by_signature(bot, 0))


def by_token(value: str) -> Guess:
    return Guess(BearerAuthentication(), {"Authorization": f"Bearer {value}"})


def by_signature(bot: factories.Bot, right_digits: int) -> Guess:
    now = int(time.time())
    body = json.dumps({"source": "tradingview", "botId": bot.id}).encode()
    right = signing.sign(bot.secret, now, body).removeprefix("v1=")
    wrong = "".join(f"{(int(digit, 16) + 1) % 16:x}" for digit in right)
    signature = f"v1={right[:right_digits]}{wrong[right_digits:]}"
    headers = {signing.TIMESTAMP_HEADER: str(now), signing.SIGNATURE_HEADER: signature}
    return Guess(SignerAuthentication(), headers, body)


def measure(pair: Pair, samples: int) -> tuple[list[int], list[int]]:
    """The nanoseconds of the refusals of both guesses, in random order."""
    times: tuple[list[int], list[int]] = ([], [])
    order = [0, 1] * samples
    random.shuffle(order)
    for kind in order[:WARMING]:
        pair[kind].nanoseconds()
    gc.disable()
    for kind in order:
        times[kind].append(pair[kind].nanoseconds())
    gc.enable()
    return times


def welch(ones: list[int], others: list[int]) -> float:
    """Welch's t of two samples without the slowest values of both."""
    cut = sorted(ones + others)[int(KEPT * len(ones + others))]
    ones, others = [x for x in ones if x <= cut], [x for x in others if x <= cut]
    error = statistics.variance(ones) / len(ones) + statistics.variance(others) / len(others)
    return (statistics.fmean(ones) - statistics.fmean(others)) / math.sqrt(error)


@contextmanager
def a_database() -> Iterator[None]:
    name = connection.settings_dict["NAME"]
    connection.creation.create_test_db(verbosity=0)
    try:
        yield
    finally:
        connection.creation.destroy_test_db(name, verbosity=0)


def main(samples: int) -> int:
    with a_database():
        measured = {name: round(welch(*measure(pair, samples)), 2) for name, pair in pairs()}
    for name, t in measured.items():
        print(f"{name:34} t = {t:6.2f}")
    print(json.dumps({"samples": samples, "t": measured}))
    return int(any(abs(t) >= THRESHOLD for t in measured.values()))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else SAMPLES))

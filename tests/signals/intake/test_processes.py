"""Signals from several processes: a nonce is accepted once, and fills match the elections."""

import os
import random
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from django.db import OperationalError, connections
from django.test import Client

from desks import actions
from desks.models import Card, Desk
from events.actors import SYSTEM
from events.kinds import Kind
from events.models import Event
from signals.intake import recording
from signals.intake.models import Signal
from tests.factories import a_card, a_platform_token, a_ready_desk
from tests.processes import meet, run_together

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.processes,
    pytest.mark.usefixtures("contiguous"),
]

PROCESSES, THREADS = 4, 8
RACES = 10  # at most: one is enough if each process writes signals of several threads together
ROUNDS = int(os.environ.get("RACE_ROUNDS", "5"))  # make drills: more
FAN_OUTS, FAN_OUT_THREADS, TOGGLES, DESKS_EACH = 80, 8, 60, 5


def engine(token: str) -> Client:
    return Client(headers={"Authorization": f"Bearer {token}"})


def push(client: Client, **fields: Any) -> Any:
    """Posts to the hook, and retries a 503: on a slow machine the log's lock can time out."""
    body = {"pair": "BTC/USDT", "direction": "long", "elected": True, "source": "floor", **fields}
    while True:
        answer = client.post("/api/hooks/signal", body, content_type="application/json")
        if answer.status_code != 503:
            return answer


def largest_batch() -> int:
    """The upper bound of the largest batch that this process wrote."""
    [metric] = recording.BATCH.collect()
    buckets = [sample for sample in metric.samples if sample.name.endswith("_bucket")]
    most = max(sample.value for sample in buckets)
    return next(int(float(b.labels["le"])) for b in buckets if b.value == most)


def race(token: str, user_id: str, name: str) -> tuple[int, list[tuple[int, int, str | None, str]]]:
    """Pushes each round's nonce from all threads at once.

    Returns the largest batch, and round, status, code and signal of each answer.
    """
    start = threading.Barrier(THREADS, action=meet)  # the threads of all processes

    def one_thread(_: int) -> list[tuple[int, int, str | None, str]]:
        client, answers = engine(token), []
        try:
            for number in range(ROUNDS):
                start.wait()
                answer = push(client, nonce=f"{name}-{number}", userId=user_id)
                body = answer.json()
                signal = body.get("first", body).get("signal", {}).get("id")
                answers.append((number, answer.status_code, body.get("code"), signal))
        except BaseException:
            start.abort()  # so that the other threads do not wait for this one
            raise
        connections.close_all()
        return answers

    with ThreadPoolExecutor(THREADS) as threads:
        answers = [each for answers in threads.map(one_thread, range(THREADS)) for each in answers]
    return largest_batch(), answers


def test_exactly_one_of_32_concurrent_pushes_of_a_nonce_is_accepted():
    desk, token = a_ready_desk(a_card()), a_platform_token()
    for races in range(1, RACES + 1):
        raced = run_together(race, [(token, desk.public_id, f"race-{races}")] * PROCESSES)
        everyone = [answers for _, answers in raced]
        exactly_one_is_accepted(everyone)
        assert Signal.objects.count() == races * ROUNDS
        if min(largest for largest, _ in raced) > 1:
            break
    else:
        pytest.fail("In each race a process wrote no batch of more than one.")


def exactly_one_is_accepted(everyone: list[list[tuple[int, int, str | None, str]]]) -> None:
    """In each round. ``everyone`` are the answers that each process got."""
    for number in range(ROUNDS):
        answers = [answer[1:] for each in everyone for answer in each if answer[0] == number]
        accepted = [signal for status, _, signal in answers if status == 200]
        refused = [(status, code, signal) for status, code, signal in answers if status != 200]
        assert len(accepted) == 1
        assert refused == [(409, "nonce_used", accepted[0])] * (PROCESSES * THREADS - 1)


def toggle(seed: int, card_id: str, desk_ids: list[int]) -> None:
    """Enrols and withdraws desks in a random order."""
    dice = random.Random(seed)
    desks = list(Desk.objects.filter(pk__in=desk_ids))
    for _ in range(TOGGLES):
        desk = dice.choice(desks)
        with suppress(OperationalError):  # on a busy machine the turn may not come in time
            if dice.random() < 0.5:
                actions.enrol(desk=desk, card_id=card_id, actor=SYSTEM)
            else:
                actions.withdraw(desk=desk, actor=SYSTEM)


def fan_out(token: str, name: str) -> int:
    """Fans out from several threads until some shared a batch. Returns how often."""

    def one_thread(thread: int) -> int:
        client, number = engine(token), 0
        while number < FAN_OUTS // FAN_OUT_THREADS or (largest_batch() == 1 and number < FAN_OUTS):
            assert push(client, fanout=True, nonce=f"{name}-{thread}-{number}").status_code == 200
            number += 1
        connections.close_all()
        return number

    with ThreadPoolExecutor(FAN_OUT_THREADS) as threads:
        pushed = sum(threads.map(one_thread, range(FAN_OUT_THREADS)))
    assert largest_batch() > 1, "the process wrote no batch of more than one"
    return pushed


def enrol_or_fan_out(work: str, *arguments: Any) -> int | None:
    return toggle(*arguments) if work == "toggle" else fan_out(*arguments)


def test_a_fan_out_fills_exactly_the_desks_with_an_election_standing_at_its_position():
    card, token = a_card(), a_platform_token()
    desks = [a_ready_desk(card) for _ in range(3 * DESKS_EACH)]
    groups = [[d.pk for d in desks[n::3]] for n in range(3)]
    *_, first, second = run_together(
        enrol_or_fan_out,
        [("toggle", n, card.pk, group) for n, group in enumerate(groups)]
        + [("fan out", token, name) for name in ("a", "b")],
    )
    client, replay = engine(token), {}
    for position, stood in standing_by_the_log():
        replay[position] = stood
    signals = list(Signal.objects.all())
    assert len(signals) == first + second >= 2 * FAN_OUTS
    for signal in signals:
        listed = [d["userId"] for d in client.get(signal.answer()["desks"]).json()["desks"]]
        assert len(listed) == len(set(listed)) == signal.matched == signal.filled
        assert set(listed) == replay[signal.position]
    assert len({frozenset(stood) for stood in replay.values()}) > 10, (
        "no desk enrolled or withdrew during the fan-outs"
    )
    assert Card.objects.get().standing == len(list(standing_by_the_log())[-1][1] or [])


def standing_by_the_log() -> Iterable[tuple[int, set[str]]]:
    """The desks with a standing election at each position, derived from the log."""
    stood: set[str] = set()
    for event in Event.objects.order_by("position"):
        if event.kind == Kind.ELECTION_MADE:
            stood = stood | {event.topic}
        elif event.kind == Kind.ELECTION_WITHDRAWN:
            stood = stood - {event.topic}
        yield event.position, stood

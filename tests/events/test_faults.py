"""Writers that die or stall inside their turn: nothing half written, and nobody held for long."""

import os
import signal
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.test import Client

from desks.models import Automation, Card
from events import log
from events.kinds import Kind
from events.models import Event, Head
from tests.factories import a_card, a_desk, a_platform_token, a_ready_desk
from tests.processes import started_together

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.processes,
    pytest.mark.alone,
]

HELD = 6  # seconds: longer than anybody waits


def hold_the_lock(desk_id: int, sign: str, how: str) -> None:
    """Writes a bot and its event, says so in a file, and then does not come to its commit."""
    with log.turn() as turn:
        Automation.objects.create(desk_id=desk_id, name="Half", created_at=turn.at)
        turn.append(Kind.AUTOMATION_CREATED, topic=None, data={})
        Path(sign).touch()
        if how == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        elif how == "works on" and connection.vendor == "postgresql":
            connection.cursor().execute("SELECT pg_sleep(%s)", [HELD])
        else:
            time.sleep(HELD)


def wait_for(sign: Path) -> None:
    deadline = time.monotonic() + 30
    while not sign.exists():
        assert time.monotonic() < deadline, "the writer never held the lock"


def push(token: str, nonce: str) -> tuple[Any, float]:
    """A fan-out's answer, and how many seconds it took."""
    body = {"pair": "BTC/USDT", "direction": "long", "elected": True, "source": "floor"}
    began = time.monotonic()
    answer = Client(headers={"Authorization": f"Bearer {token}"}).post(
        "/api/hooks/signal",
        body | {"fanout": True, "nonce": nonce},
        content_type="application/json",
    )
    return answer, time.monotonic() - began


def whole() -> bool:
    """Whether no position is missing and nothing half is there."""
    positions = list(Event.objects.values_list("position", flat=True))
    return positions == list(range(1, Head.objects.get().position + 1)) and not (
        Automation.objects.exists()
    )


def test_a_writer_that_dies_between_two_writes_leaves_neither(tmp_path):
    a_ready_desk(a_card())
    token, sign = a_platform_token(), tmp_path / "held"
    with started_together(hold_the_lock, [(a_desk().pk, str(sign), "dies")]) as [dying]:
        assert isinstance(dying.exception(), BrokenProcessPool)
    answer, _ = push(token, "after")
    assert (answer.status_code, answer.json()["filled"]) == (200, 1)
    assert whole()


def test_while_the_lock_is_held_the_others_answer_unavailable_and_nothing_is_spent(tmp_path):
    a_ready_desk(a_card())
    token, sign = a_platform_token(), tmp_path / "held"
    with started_together(hold_the_lock, [(a_desk().pk, str(sign), "works on")]) as [busy]:
        wait_for(sign)
        answer, took = push(token, "same")
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert answer.headers["Retry-After"] == "1"
        assert took < HELD - 2
        busy.exception()
    Automation.objects.all().delete()
    again, _ = push(token, "same")
    assert again.status_code == 200


@pytest.mark.skipif("connection.vendor == 'sqlite'", reason="SQLite cannot end another's hold")
def test_a_writer_that_stalls_is_ended_and_those_behind_it_go_on(tmp_path):
    a_ready_desk(a_card())
    token, sign = a_platform_token(), tmp_path / "held"
    with started_together(hold_the_lock, [(a_desk().pk, str(sign), "stalls")]) as [stalled]:
        wait_for(sign)
        answer, took = push(token, "behind")
        assert answer.status_code in (200, 503)
        assert took < HELD - 2
        second, _ = push(token, "next")
        assert (second.status_code, second.json()["filled"]) == (200, 1)
        assert isinstance(stalled.exception(), DatabaseError)
    assert whole()
    assert Card.objects.get().standing == 1

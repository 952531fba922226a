"""Writers that die or stall inside their turn: no partial writes, and no long waits for others."""

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
from events.actors import SYSTEM
from events.kinds import Kind
from events.models import Event, Head
from tests.factories import a_card, a_desk, a_platform_token, a_ready_desk
from tests.processes import started_together

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.processes,
]

HELD = 9  # seconds: longer than any writer waits


def hold_the_lock(desk_id: int, marker: str, how: str) -> None:
    """Writes a bot and its event, creates the file ``marker``, and then does not commit in time."""
    with log.turn(actor=SYSTEM) as turn:
        Automation.objects.create(desk_id=desk_id, name="Half", created_at=turn.at)
        turn.append(Kind.AUTOMATION_CREATED, topic=None, data={})
        Path(marker).touch()
        if how == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        elif how == "works on" and connection.vendor == "postgresql":
            connection.cursor().execute("SELECT pg_sleep(%s)", [HELD])
        else:
            time.sleep(HELD)


def wait_for(marker: Path) -> None:
    deadline = time.monotonic() + 30
    while not marker.exists():
        assert time.monotonic() < deadline, "the writer never held the lock"


def push(token: str, nonce: str) -> tuple[Any, float]:
    """The response to a fan-out, and its duration in seconds."""
    body = {"pair": "BTC/USDT", "direction": "long", "elected": True, "source": "floor"}
    began = time.monotonic()
    response = Client(headers={"Authorization": f"Bearer {token}"}).post(
        "/api/hooks/signal",
        body | {"fanout": True, "nonce": nonce},
        content_type="application/json",
    )
    return response, time.monotonic() - began


def is_consistent() -> bool:
    """Whether no position is missing and no bot was stored."""
    positions = list(Event.objects.values_list("position", flat=True))
    return positions == list(range(1, Head.objects.get().position + 1)) and not (
        Automation.objects.exists()
    )


def test_a_writer_that_dies_leaves_no_partial_write(tmp_path):
    a_ready_desk(a_card())
    token, marker = a_platform_token(), tmp_path / "held"
    with started_together(hold_the_lock, [(a_desk().pk, str(marker), "dies")]) as [dying]:
        assert isinstance(dying.exception(), BrokenProcessPool)
    response, _ = push(token, "after")
    assert (response.status_code, response.json()["filled"]) == (200, 1)
    assert is_consistent()


def test_other_writers_get_unavailable_while_the_lock_is_held_and_no_nonce_is_used(tmp_path):
    a_ready_desk(a_card())
    token, marker = a_platform_token(), tmp_path / "held"
    with started_together(hold_the_lock, [(a_desk().pk, str(marker), "works on")]) as [busy]:
        wait_for(marker)
        response, took = push(token, "same")
        assert (response.status_code, response.json()["code"]) == (503, "unavailable")
        assert response.headers["Retry-After"] == "1"
        assert took < HELD - 2
        busy.exception()
    Automation.objects.all().delete()
    again, _ = push(token, "same")
    assert again.status_code == 200


@pytest.mark.skipif(
    "connection.vendor == 'sqlite'", reason="SQLite cannot terminate another writer"
)
def test_a_stalled_writer_is_terminated_and_the_next_writers_proceed(tmp_path):
    a_ready_desk(a_card())
    token, marker = a_platform_token(), tmp_path / "held"
    with started_together(hold_the_lock, [(a_desk().pk, str(marker), "stalls")]) as [stalled]:
        wait_for(marker)
        response, took = push(token, "behind")
        assert response.status_code in (200, 503)
        assert took < HELD - 2
        second, _ = push(token, "next")
        assert (second.status_code, second.json()["filled"]) == (200, 1)
        assert isinstance(stalled.exception(), DatabaseError)
    assert is_consistent()
    assert Card.objects.get().standing == 1

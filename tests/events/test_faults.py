"""Writers that die or stall inside their turn: no partial writes, and no long waits for others."""

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from pathlib import Path

import pytest
from django.db import DatabaseError, connection  # noqa: F401 - for skipif

from desks.models import Automation, Card
from events import log, writer_queue
from events.actors import SYSTEM
from events.kinds import Kind
from events.models import Event, Head
from tests import patience
from tests.client import push
from tests.factories import a_card, a_desk, a_platform_token, a_ready_desk
from tests.processes import started_together
from tests.signals.bodies import fanout

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.processes,
]


def hold_the_lock(desk_id: int, folder: str, how: str) -> None:
    """Writes a bot and its event, and does not commit before the test lets go of it.

    If it stalls, its own limits are the service's. If it works, it may stand still for a while, as
    on a busy machine.
    """
    held, let_go = Path(folder, "held"), Path(folder, "let_go")
    limits = patience.limits_of_the_service() if how == "stalls" else nullcontext()
    with limits, log.turn(actor=SYSTEM) as turn:
        Automation.objects.create(desk_id=desk_id, name="Half", created_at=turn.at)
        turn.append(Kind.AUTOMATION_CREATED, topic=None, data={})
        held.touch()
        if how == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        wait_for(let_go)


def wait_for(marker: Path) -> None:
    until(marker.exists)


def until(holds: Callable[[], bool]) -> None:
    """The test's timeout bounds it."""
    while not holds():
        time.sleep(0.01)


def is_consistent() -> bool:
    """Whether no position is missing and no bot was stored."""
    positions = list(Event.objects.values_list("position", flat=True))
    return positions == list(range(1, Head.objects.get().position + 1)) and not (
        Automation.objects.exists()
    )


def test_a_writer_that_dies_leaves_no_partial_write(tmp_path):
    a_ready_desk(a_card())
    token = a_platform_token()
    with started_together(hold_the_lock, [(a_desk().pk, str(tmp_path), "dies")]) as [dying]:
        assert isinstance(dying.exception(), BrokenProcessPool)
    response = push(fanout(), token)
    assert (response.status_code, response.json()["filled"]) == (200, 1)
    assert is_consistent()


def test_other_writers_get_unavailable_while_the_lock_is_held_and_no_nonce_is_used(tmp_path):
    a_ready_desk(a_card())
    token = a_platform_token()
    with started_together(hold_the_lock, [(a_desk().pk, str(tmp_path), "works on")]) as [busy]:
        wait_for(tmp_path / "held")
        with patience.limits_of_the_service():
            assert writer_queue.TIMEOUT < 2  # seconds, as the contract's `unavailable` says
            response = push(fanout(nonce="same"), token)
        still_held = not busy.done()
        (tmp_path / "let_go").touch()
        assert busy.exception() is None
    assert (response.status_code, response.json()["code"]) == (503, "unavailable")
    assert response.headers["Retry-After"] == "1"
    assert still_held
    Automation.objects.all().delete()
    assert push(fanout(nonce="same"), token).status_code == 200


@pytest.mark.skipif(
    "connection.vendor == 'sqlite'", reason="SQLite cannot terminate another writer"
)
def test_a_stalled_writer_is_terminated_and_the_next_writers_proceed(tmp_path):
    a_ready_desk(a_card())
    token = a_platform_token()
    with started_together(hold_the_lock, [(a_desk().pk, str(tmp_path), "stalls")]) as [stalled]:
        # On a busy machine it may be terminated before it says so.
        until(lambda: (tmp_path / "held").exists() or stalled.done())
        responses = [push(fanout(), token) for _ in range(2)]
        still_stalls = not stalled.done() or not (tmp_path / "held").exists()
        (tmp_path / "let_go").touch()
        assert isinstance(stalled.exception(), DatabaseError)
    assert [(each.status_code, each.json().get("filled")) for each in responses] == [(200, 1)] * 2
    assert still_stalls
    assert is_consistent()
    assert Card.objects.get().standing == 1

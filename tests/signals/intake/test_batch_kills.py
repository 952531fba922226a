"""A process is killed in every phase of a batch: nothing is half written, lost or done twice.

A process with a warm queue forks a child for each kill. The child sends signals from many threads
and kills itself at a chosen statement of a batch. What it was told before is read from a pipe.
``BATCH_KILLS`` sets how many children are killed.
"""

import os
import secrets
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, connections

from events.models import Event
from signals.intake import recording
from signals.intake.incoming_signal import IncomingSignal
from signals.intake.models import Signal
from signals.intake.receive import receive
from tests.client import push
from tests.factories import a_card, a_platform_token, a_ready_desk
from tests.processes import run_together
from tests.signals.bodies import fanout
from tokens.models import Token

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.processes,
    pytest.mark.usefixtures("contiguous"),
    pytest.mark.timeout(900),
]

KILLS = int(os.environ.get("BATCH_KILLS", "5"))
THREADS = 12
# The phases of a batch: before each of its statements, before the commit, and after it. On
# PostgreSQL one statement inserts and updates.
PHASES = ["SELECT", "INSERT", "UPDATE", "commit", "wake"]
BATCHES_BEFORE = 3  # so many batches are written before the kill


def kill_children(kills: int) -> list[tuple[str, list[str], list[str], int]]:
    """Kills so many children, one after the other.

    Returns of each its phase, the nonces it sent, those it was told to be accepted, and the size of
    the largest batch.
    """
    token = Token.objects.get()
    connections.close_all()
    return [_kill_one(PHASES[number % len(PHASES)], token) for number in range(kills)]


def _kill_one(phase: str, token: Token) -> tuple[str, list[str], list[str], int]:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            _send_until_killed(phase, token, writer)
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        lines = pipe.read().splitlines()
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL, f"the child was not killed in phase {phase}"
    words = [line.split() for line in lines]
    return (
        phase,
        [nonce for kind, nonce in words if kind == "sent"],
        [nonce for kind, nonce in words if kind == "accepted"],
        max((int(size) for kind, size in words if kind == "batch"), default=0),
    )


def _send_until_killed(phase: str, token: Token, pipe: int) -> None:
    def tell(kind: str, value: object) -> None:
        os.write(pipe, f"{kind} {value}\n".encode())  # shorter than PIPE_BUF: in one piece

    recording._queue._process = _killing(phase, tell)

    def send() -> None:
        while True:
            nonce = secrets.token_hex(8)
            tell("sent", nonce)
            receive(IncomingSignal(fanout(nonce=nonce), token))
            tell("accepted", nonce)

    for _ in range(THREADS):
        threading.Thread(target=send, daemon=True).start()
    threading.Event().wait(60)


def _killing(phase: str, tell: Callable[[str, object], None]) -> Callable[[Any], None]:
    """Writes batches, and kills the process in this phase of a batch of more than one."""
    numbers = Counter[str]()

    def write(take: Callable[[], Any]) -> None:
        with ExitStack() as armed:

            def taken() -> Any:
                jobs = take()
                numbers["batches"] += 1
                if numbers["batches"] > BATCHES_BEFORE and len(jobs) > 1:
                    tell("batch", len(jobs))
                    if phase in ("commit", "wake"):
                        _kill_at_commit(before=phase == "commit")
                    else:
                        armed.enter_context(connection.execute_wrapper(kill))
                return jobs

            recording.write(taken)

    def kill(execute: Any, sql: str, *arguments: Any) -> Any:
        if phase in sql:
            os.kill(os.getpid(), signal.SIGKILL)
        return execute(sql, *arguments)

    return write


def _kill_at_commit(*, before: bool) -> None:
    """Kills the process just before or just after the next COMMIT of this thread."""
    connection.ensure_connection()
    commit = connection._commit  # type: ignore[attr-defined]

    def killing() -> None:
        if not before:
            commit()
        os.kill(os.getpid(), signal.SIGKILL)

    connection._commit = killing  # type: ignore[attr-defined]


def test_a_kill_in_any_phase_of_a_batch_leaves_nothing_half_written():
    a_ready_desk(a_card())
    token = a_platform_token()
    [killed] = run_together(kill_children, [(KILLS,)])
    assert len(killed) == KILLS
    assert all(largest > 1 for *_, largest in killed)
    written = Counter(Signal.objects.values_list("nonce", flat=True))
    filled = Event.objects.filter(kind="signal.filled").values_list("signal_id", flat=True)
    assert Counter(filled) == Counter(Signal.objects.values_list("public_id", flat=True))
    for phase, sent, accepted, _ in killed:
        assert all(written[nonce] == 1 for nonce in accepted), phase
        for nonce in set(sent) - set(accepted):
            answer = push(fanout(nonce=nonce), token)
            assert answer.status_code == (409 if written[nonce] else 200)
    assert set(Counter(Signal.objects.values_list("nonce", flat=True)).values()) == {1}
    call_command("audit", stdout=sys.stderr)

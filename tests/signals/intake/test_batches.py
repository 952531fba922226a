"""A batch of signals decides exactly as its signals would one by one."""

import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.db import IntegrityError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from desks.models import Desk
from events import log
from events.actors import SYSTEM
from events.http.refusals import Refused, TokenInvalid
from events.models import Event
from signals.intake import recording
from signals.intake.decision import Candidate, LawfulSignal
from signals.intake.group_commit import Job
from signals.intake.incoming_signal import IncomingSignal
from signals.intake.models import Signal
from signals.intake.receive import parse_lawful
from signals.intake.recording import write
from signals.law.refusals import NonceUsed, PairMismatch
from tests.factories import a_platform_token
from tests.signals.bodies import deploy, fanout, floor
from tokens import actions as tokens
from tokens.models import SigningSecret, Token

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("contiguous")]
CandidateJob = Job[Any, Signal]


@pytest.fixture
def token(desk: Desk) -> Token:
    a_platform_token()
    return Token.objects.get()


def signal(body: dict[str, Any], credential: Token | SigningSecret, **more: Any) -> CandidateJob:
    incoming = IncomingSignal(body, credential, getattr(credential, "automation", None), **more)
    return Job(LawfulSignal(incoming, parse_lawful(incoming)))


def outcomes(jobs: Sequence[CandidateJob]) -> list[Any]:
    """Writes the batch. Returns the position of each signal, or its refusal."""
    write(lambda: jobs)
    results: list[Any] = []
    for job in jobs:
        try:
            results.append(job.result().position)
        except Refused as refusal:
            results.append(refusal)
    return results


def test_the_second_use_of_a_nonce_in_a_batch_is_answered_with_the_first(desk, token):
    body = fanout()
    jobs = [signal(body, token), signal(body, token), signal({**body, "pair": "X/Y"}, token)]
    with CaptureQueriesContext(connection) as queries:
        first, again, other = outcomes(jobs)
    turns = [query for query in queries if "FROM events_head" in query["sql"]]
    assert len(turns) == 1  # none was tried on its own
    assert isinstance(again, NonceUsed)
    assert again.members == {"first": jobs[0].result().answer(), "identical": True}
    assert other.members == {"first": jobs[0].result().answer(), "identical": False}
    assert Signal.objects.get().position == first
    assert [event.position for event in Event.objects.filter(position__gt=first)] == [first + 1]


def test_a_nonce_that_a_refused_signal_of_the_batch_named_is_not_spent(desk, token):
    body = fanout()
    refused, accepted = outcomes([signal({**body, "pair": "X/Y"}, token), signal(body, token)])
    assert isinstance(refused, PairMismatch)
    assert accepted == Signal.objects.get().position


def test_each_signal_of_a_batch_is_decided_by_its_own_credential(desk, token):
    a_platform_token()
    revoked = Token.objects.exclude(pk=token.pk).get()
    tokens.revoke(token=revoked, actor=SYSTEM)
    refused, accepted = outcomes([signal(fanout(), revoked), signal(fanout(), token)])
    assert isinstance(refused, TokenInvalid)
    assert Event.objects.get(position=accepted).actor_id == token.public_id


def test_a_signal_that_cannot_be_written_does_not_fail_the_others(desk, token):
    """The bad row breaks a constraint of the table in the statement that writes the batch."""
    jobs = [signal(fanout(), token) for _ in range(4)]
    jobs[1].work.signal.public_id = jobs[0].work.signal.public_id
    write(lambda: jobs)
    assert [job.result().position for job in (jobs[0], *jobs[2:])] == sorted(
        Signal.objects.values_list("position", flat=True)
    )
    with pytest.raises(IntegrityError):
        jobs[1].result()


def test_a_refusal_that_is_tried_again_uses_its_allowance_once(desk, token, settings):
    settings.LIMITS = {**settings.LIMITS, "refusals": "1/minute"}
    jobs = [signal(fanout(), token), signal(fanout(), token), signal(fanout(pair="X/Y"), token)]
    jobs[1].work.signal.public_id = jobs[0].work.signal.public_id
    write(lambda: jobs)
    refused = Event.objects.get(kind="signal.refused")
    assert refused.content["data"]["code"] == PairMismatch.code
    with pytest.raises(PairMismatch):
        jobs[2].result()


def statements_of(jobs: Sequence[CandidateJob]) -> list[str]:
    with CaptureQueriesContext(connection) as queries:
        write(lambda: jobs)
    return [re.split(r"\s", query["sql"].strip())[0] for query in queries]


@pytest.mark.parametrize("size", [1, 32])
def test_a_batch_takes_as_many_statements_as_one_signal(desk, token, size):
    """BEGIN and COMMIT are SAVEPOINT and RELEASE SAVEPOINT inside a test's own transaction."""
    taken = statements_of([signal(fanout(), token) for _ in range(size)])
    inserts = ["WITH"] if connection.vendor == "postgresql" else ["INSERT", "INSERT", "UPDATE"]
    assert taken == ["SAVEPOINT", "SELECT", "SELECT", *inserts, "RELEASE"]


def test_a_batch_that_repeats_signals_takes_one_more_statement(desk, token):
    body = fanout()
    outcomes([signal(body, token)])
    jobs = [signal(fanout(), token), signal(body, token), signal(fanout(), token)]
    jobs.append(signal(deploy(), token, deploy_to="usr_nobody"))
    taken = statements_of(jobs)
    assert taken.count("SELECT") == 3  # the last: the first answers of spent nonces


def test_a_signal_that_joins_a_turn_is_not_received_before_it_was_sent(desk, token):
    job, locked = signal(fanout(), token), timezone.now().replace(microsecond=0)
    locked += timedelta(hours=1)  # after the events of the fixtures
    with time_machine.travel(locked, tick=False) as clock:

        def take() -> list[CandidateJob]:
            clock.shift(1)
            return [job]

        write(take)
    assert job.result().received_at == locked + timedelta(seconds=1)


@pytest.mark.django_db(transaction=True)
def test_who_comes_while_the_first_one_waits_for_the_lock_shares_its_turn(desk, token):
    candidates = [signal(floor(desk, nonce=f"n-{n}"), token).work for n in range(4)]

    def send(candidate: Candidate) -> Signal:
        try:
            return recording.submit(candidate)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        with log.turn(actor=SYSTEM):
            sent = [pool.submit(send, candidate) for candidate in candidates]
            limit = time.monotonic() + 60
            while len(recording._queue._waiting) < len(candidates):
                assert time.monotonic() < limit
        positions = [each.result(60).position for each in sent]
    assert max(positions) - min(positions) == 3

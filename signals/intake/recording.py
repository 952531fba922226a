"""Writes a batch of signals and refusals in one turn at the log.

Each signal is decided exactly as in a turn of its own, in the order of arrival. Signals change no
election and no card. So what one signal of a batch changes for the next is only its spent nonce.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial

from prometheus_client import Histogram

from events import log, tracing
from events.http.refusals import Refused
from events.kinds import SUPPRESSED, Kind
from events.models import Event
from events.writer_queue import DATABASE_ERRORS
from signals.intake import statements
from signals.intake.decision import Candidate
from signals.intake.group_commit import GroupCommit, Job
from signals.intake.incoming_signal import Allowance, IncomingSignal
from signals.intake.models import Signal
from signals.intake.statements import DecisionState

BATCH = Histogram(
    "signals_batch_size",
    "Signals and refusals that were written in one turn at the log",
    buckets=(1, 2, 4, 8, 16, 32, 64),
)
LOCK = Histogram(
    "signals_lock_seconds",
    "Seconds from the moment at which a batch has the log's lock to the end of its commit",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
)


CandidateJob = Job[Candidate, Signal]


def submit(candidate: Candidate) -> Signal:
    """Decides and records a candidate, in one turn with those that wait at the same time.

    Raises its refusal. Raises ``OperationalError`` if the database or the log is not available in
    time. The outcome is unknown then if the database went away during the commit.
    """
    with tracing.span("queue") as span:
        signal = _queue.submit(candidate)
        span.link(signal.position, signal.epoch)
    return signal


def write(take: Callable[[], Sequence[CandidateJob]]) -> None:
    """Writes a batch. If one signal of it cannot be written, each is written on its own.

    ``take`` returns the batch. It is called when the log's lock is held.
    """
    jobs: list[CandidateJob] = []
    try:
        _write_together(take, jobs)
    except DATABASE_ERRORS:
        raise
    except Exception as error:
        if len(jobs) == 1 and not jobs[0].done():
            jobs[0].set_exception(error)
        elif not jobs or any(job.done() for job in jobs):  # none was taken, or it was committed
            raise
        else:
            for job in jobs:
                write(partial(list, [job]))


_queue: GroupCommit[Candidate, Signal] = GroupCommit(write)


def _write_together(take: Callable[[], Sequence[CandidateJob]], jobs: list[CandidateJob]) -> None:
    """Writes a batch in one turn. The jobs are finished after the commit only."""
    with log.turn(actor=None) as turn:
        locked = time.monotonic()
        jobs += take()
        outcomes = _decide(turn, [job.work for job in jobs])
    unlocked = time.monotonic()
    for job, outcome in zip(jobs, outcomes, strict=True):
        if isinstance(outcome, Signal):
            outcome.epoch = turn.epoch
            job.set_result(outcome)
        else:
            job.set_exception(outcome)
    LOCK.observe(unlocked - locked)
    BATCH.observe(len(jobs))


def _decide(turn: log.Turn, candidates: Sequence[Candidate]) -> list[Signal | Refused]:
    """Decides and writes all candidates. Returns the outcome of each."""
    questions = [candidate.question() for candidate in candidates]
    states = statements.load_states(questions, turn.at)
    first = statements.load_signals([state.spent_at for state in states if state.spent_at])
    outcomes: list[Signal | Refused] = []
    signals: list[Signal] = []
    events: list[Event] = []
    for candidate, question, state in zip(candidates, questions, states, strict=True):
        nonce = (question.get("signer"), question.get("nonce"))
        turn.actor = candidate.incoming.actor
        event: Event | None
        try:
            signal, event = candidate.decide(turn, state, first.get(nonce))
        except Refused as refusal:
            outcomes.append(refusal.with_traceback(None))
            event = _refusal_event(turn, refusal, candidate, state)
        else:
            outcomes.append(signal)
            signals.append(signal)
            first[nonce] = signal
        if event is not None:
            events.append(event)
            turn.mark_written(event)
    statements.insert(turn, signals, events)
    return outcomes


# --- Refusals: which the log records, and what of them -------------------------------------------


def _refusal_event(
    turn: log.Turn, refusal: Refused, candidate: Candidate, state: DecisionState
) -> Event | None:
    """The event of a refusal, at the turn's next position. None if it is not recorded."""
    if not candidate.is_recorded(refusal) or candidate.incoming.allowance is Allowance.REPORTED:
        return None
    if candidate.incoming.allowance is Allowance.USED_UP:
        return _suppressed_refusals(turn, candidate.incoming)
    return _recorded_refusal(turn, refusal, candidate, state)


def _recorded_refusal(
    turn: log.Turn, refusal: Refused, candidate: Candidate, state: DecisionState
) -> Event:
    bot = candidate.incoming.automation
    marks = candidate.incoming.marks(refusal)
    errors = refusal.members.get("errors")
    return turn.build_event(
        Kind.SIGNAL_REFUSED,
        topic=candidate.user_id,
        data={
            "code": refusal.code,
            "source": candidate.incoming.source,
            "sent": candidate.sent,
            "elected": refusal.members.get("elected") or (state.elected if bot else None),
            "botId": bot and bot.pk,
            **({"errors": errors} if errors else {}),
            **(marks if bot else {}),
        },
        platform_data=None if bot else marks,
    )


def _suppressed_refusals(turn: log.Turn, incoming: IncomingSignal) -> Event:
    """The event of all refusals that are not recorded. The owner of the bots sees it.

    It names the bot of a credential. What strangers send may name any bot of the desk.
    """
    bot = incoming.automation if incoming.credential else None
    return turn.build_event(
        Kind.SIGNAL_REFUSED,
        topic=incoming.owner_id,
        data={
            "code": SUPPRESSED,
            "source": None,
            "sent": {"pair": None, "direction": None},
            "elected": None,
            "botId": bot and bot.pk,
            "suppressed": 1,  # at least
        },
    )

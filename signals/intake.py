"""The one way in for a signal: lawful, then locked, matched, recorded, answered.

Everything that needs no lock is done before it. Under it stands only SQL (``statements``): what
stands is read and decided, the signal and its event are written at one position. A refusal that was
decided by what stood in the log is recorded at the position that decided it.
"""

from typing import Any

from desks import limits
from events import log
from events.kinds import Kind
from events.models import Event
from events.refusals import NonceUsed, NotFound, Refused, Unlawful
from signals import law, shapes, statements
from signals.law import Standing
from signals.models import Outcome, Signal
from signals.received import Received, append_refusal, record_refusal
from signals.shapes import Mode, Submission
from signals.statements import Found

KINDS = {
    Outcome.FILLED: Kind.SIGNAL_FILLED,
    Outcome.DRY_RUN: Kind.SIGNAL_DRY_RUN,
    Outcome.RECORDED: Kind.SIGNAL_RECORDED,
}


def receive(received: Received) -> dict[str, Any]:
    """Takes a signal in and returns the answer (contract, section 4).

    Raises the refusal that applies first; those of the law and of a spent nonce are recorded, as
    far as the sender's allowance of recorded refusals goes.
    """
    try:
        submission = read_lawful(received)
    except Unlawful as refusal:
        record_refusal(refusal, received)
        raise
    try:
        signal = _take_in(submission, received)
    except (Unlawful, NonceUsed):
        if not limits.has_room("refusals", received.sender):
            raise
        # Decided once more, at the position that records it.
        signal = _take_in(submission, received, record=True)
    return {**signal.answer(), "ignored": list(submission.ignored)}


def foresee(received: Received) -> tuple[Outcome, int]:
    """What would become of a signal that came now, and how many desks it would match.

    Raises the refusal that would apply first. Nothing is recorded and no nonce is spent.
    """
    submission = read_lawful(received)
    found = statements.find(_signal(submission, received))
    _check(submission, found)
    return _outcome(submission, found.standing)


def read_lawful(received: Received) -> Submission:
    """The submission that a lawful body is; needs no database."""
    law.check_body(received.body)
    return shapes.read(received.body, received.deploy_to)


def _signal(submission: Submission, received: Received) -> Signal:
    """The signal that a submission is to be, but for what only its turn at the log can tell."""
    outcome, matched = _outcome(submission, standing=None)
    return Signal(
        signer=submission.signer,
        nonce=submission.nonce,
        source=submission.source,
        mode=submission.mode,
        outcome=outcome,
        pair=submission.pair,
        direction=submission.direction,
        fanout=submission.fanout,
        user_id=received.owner_id or submission.user_id,
        bot_id=submission.bot_id,
        credential=received.credential_id or "",  # none: it is here to be refused or foreseen
        trace_id=submission.trace_id,
        size_quote=None if submission.size_quote is None else f"{submission.size_quote:f}",
        rationale=submission.rationale,
        decision_ref=submission.decision_ref,
        matched=matched,
        filled=matched if outcome == Outcome.FILLED else 0,
    )


def _take_in(submission: Submission, received: Received, *, record: bool = False) -> Signal:
    """One turn at the log: what stands is read and decided under its lock."""
    signal = _signal(submission, received)
    refusal: Refused
    with log.turn() as turn:
        signal.position, signal.received_at = turn.position, turn.at
        try:
            if signal.user_id and signal.mode != Mode.DRAFT and statements.can_write_at_once():
                _write_if_it_stands(turn, signal, submission)
            else:
                _find_and_write(turn, signal, submission)
        except (Unlawful, NonceUsed) as found:
            if not record:
                raise
            refusal = found
            append_refusal(turn, found, received, signal.user_id, _sent(submission))
        else:
            return signal
    raise refusal


def _write_if_it_stands(turn: log.Turn, signal: Signal, submission: Submission) -> None:
    """One desk's signal, in one statement: the database decides, and the law says why."""
    event = _event(turn, signal)
    found, written = statements.write_if_it_stands(signal, event)
    _check(submission, found)
    assert written  # what the law accepts was written, or the two do not say the same
    turn.wrote(event)


def _find_and_write(turn: log.Turn, signal: Signal, submission: Submission) -> None:
    """Any signal: found, decided, written."""
    found = statements.find(signal)
    _check(submission, found)
    signal.card_id = None if submission.bot_id else found.card_id
    _, signal.matched = _outcome(submission, found.standing)
    signal.filled = signal.matched if signal.outcome == Outcome.FILLED else 0
    event = _event(turn, signal)
    statements.write(signal, event)
    turn.wrote(event)


def _check(submission: Submission, found: Found) -> None:
    """Raises what applies first: no such desk, a spent nonce, or what the law says."""
    if submission.user_id is not None and found.user_id is None:
        raise NotFound("There is no such desk.")
    if found.spent_at is not None:
        first = Signal.objects.get(pk=found.spent_at)
        raise NonceUsed(first=first.answer(), identical=first.says_the_same_as(submission))
    of_bot = submission.bot_id is not None
    standing = Standing(
        card=found.card,
        desk=None if of_bot else found.elected,
        automation=found.elected if of_bot else None,
    )
    law.check_match(submission, standing)


def _event(turn: log.Turn, signal: Signal) -> Event:
    counts = {"matched": signal.matched}
    if signal.outcome == Outcome.FILLED:
        counts["filled"] = signal.matched
    return turn.event(
        KINDS[Outcome(signal.outcome)],
        topic=_topic(signal),
        data={},
        platform_data={**counts, "credential": signal.credential},
        signal=signal.as_desk_json(),
        platform_signal=signal.as_json(),
    )


def _outcome(submission: Submission, standing: int | None) -> tuple[Outcome, int]:
    """What becomes of a lawful signal, and how many desks it matched (the table of nox).

    ``standing`` is how many elections stand on the published card, null where there is none.
    """
    if submission.mode == Mode.DRAFT:
        return Outcome.RECORDED, 0
    matched = int(submission.has_target)
    if submission.fanout and submission.user_id is None:
        matched = standing or 0
    if submission.mode == Mode.DRY_RUN:
        return Outcome.DRY_RUN, matched
    return (Outcome.FILLED, matched) if submission.has_target else (Outcome.RECORDED, 0)


def _topic(signal: Signal) -> str | None:
    """Whom the signal's event is addressed to: one desk, all who stand on the card, or nobody."""
    if signal.user_id is None and signal.outcome == Outcome.FILLED:
        return signal.card_id
    return signal.user_id


def _sent(submission: Submission) -> dict[str, str | None]:
    return {"pair": submission.pair, "direction": submission.direction}

"""Receives a signal: checks the law, takes the lock, matches, records and answers.

Everything that needs no lock happens before it. Under the lock run only the SQL statements of
``statements``: one reads the elections, the nonce and the credential, and one writes the signal and
its event at one position. A refusal that was decided under the lock is recorded at that position.
"""

from typing import Any

from django.utils import timezone

from events import log
from events.http.refusals import NonceUsed, NotFound, Refused, Unlawful
from events.kinds import Kind
from events.models import Event
from signals.intake import statements
from signals.intake.incoming import IncomingSignal, append_refusal, check_authority, record_refusal
from signals.intake.refusal_quota import allowances
from signals.intake.statements import MatchState
from signals.law import rules, shapes
from signals.law.rules import Standing
from signals.law.shapes import Mode, Submission
from signals.models import Outcome, Signal

KINDS = {
    Outcome.FILLED: Kind.SIGNAL_FILLED,
    Outcome.DRY_RUN: Kind.SIGNAL_DRY_RUN,
    Outcome.RECORDED: Kind.SIGNAL_RECORDED,
}


def receive(incoming: IncomingSignal) -> dict[str, Any]:
    """Records a signal and returns the body of the response (contract, section 4).

    Raises the first refusal that applies. ``Unlawful`` and ``NonceUsed`` are recorded within the
    sender's allowance. ``Unauthenticated`` is raised if the credential ended before the signal got
    a position, and is not recorded.
    """
    try:
        submission = parse_lawful(incoming)
    except Unlawful as refusal:
        record_refusal(refusal, incoming.confirmed())
        raise
    signal = _match_and_record(submission, incoming)
    return {**signal.answer(), "ignored": list(submission.ignored)}


def preview(incoming: IncomingSignal) -> tuple[Outcome, int]:
    """Returns the outcome that a signal would have now, and how many desks it would match.

    Raises the refusal that would apply. Records nothing and spends no nonce.
    """
    submission = parse_lawful(incoming)
    state = statements.load_match_state(
        _build_signal(submission, incoming), incoming.credential, timezone.now()
    )
    _check(submission, state)
    return _outcome(submission, state.standing)


def parse_lawful(incoming: IncomingSignal) -> Submission:
    """Parses a body. Raises the refusal of the law that applies. Uses no database."""
    rules.check_body(incoming.body)
    return shapes.read(incoming.body, incoming.deploy_to)


def _build_signal(submission: Submission, incoming: IncomingSignal) -> Signal:
    """Builds the signal, without what is only known under the lock: position, time and card."""
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
        user_id=incoming.owner_id or submission.user_id,
        bot_id=submission.bot_id,
        credential=incoming.credential_id or "",  # empty for a preview or a refusal
        trace_id=submission.trace_id,
        size_quote=None if submission.size_quote is None else f"{submission.size_quote:f}",
        rationale=submission.rationale,
        decision_ref=submission.decision_ref,
        matched=matched,
        filled=matched if outcome == Outcome.FILLED else 0,
    )


def _match_and_record(submission: Submission, incoming: IncomingSignal) -> Signal:
    """Matches and records the signal, or its refusal, in one turn at the log."""
    signal = _build_signal(submission, incoming)
    refusal: Refused
    with log.turn(actor=incoming.actor) as turn:
        signal.position, signal.received_at = turn.position, turn.at
        try:
            _match_and_insert(turn, signal, submission, incoming)
        except (Unlawful, NonceUsed) as error:
            if not allowances.take(incoming.sender):
                raise
            refusal = error
            append_refusal(turn, error, incoming, signal.user_id, _sent_pair(submission))
        else:
            return signal
    raise refusal


def _match_and_insert(
    turn: log.Turn, signal: Signal, submission: Submission, incoming: IncomingSignal
) -> None:
    state = statements.load_match_state(signal, incoming.credential, turn.at)
    check_authority(incoming, state.credential)
    _check(submission, state)
    signal.card_id = None if submission.bot_id else state.card_id
    _, signal.matched = _outcome(submission, state.standing)
    signal.filled = signal.matched if signal.outcome == Outcome.FILLED else 0
    event = _build_event(turn, signal)
    statements.insert_signal(signal, event)
    turn.mark_written(event)


def _check(submission: Submission, state: MatchState) -> None:
    """Raises the first refusal that applies: an unknown desk, a spent nonce, or a mismatch."""
    if submission.user_id is not None and state.user_id is None:
        raise NotFound("There is no such desk.")
    if state.spent_at is not None:
        first = Signal.objects.get(pk=state.spent_at)
        raise NonceUsed(first=first.answer(), identical=first.is_identical_to(submission))
    rules.check_match(submission, _standing(submission, state))


def _standing(submission: Submission, state: MatchState) -> Standing:
    if submission.bot_id is not None:
        return Standing(card=state.card, automation=state.elected)
    if state.user_id is None or state.elected is not None:
        return Standing(card=state.card, desk=state.elected)
    return Standing(card=state.card, not_ready=statements.why_not_ready(state))


def _build_event(turn: log.Turn, signal: Signal) -> Event:
    counts = {"matched": signal.matched}
    if signal.outcome == Outcome.FILLED:
        counts["filled"] = signal.matched
    return turn.build_event(
        KINDS[Outcome(signal.outcome)],
        topic=_topic(signal),
        data={},
        platform_data=counts,
        signal=signal.as_desk_json(),
        platform_signal=signal.to_dict(),
    )


def _outcome(submission: Submission, standing: int | None) -> tuple[Outcome, int]:
    """Returns the outcome of a lawful signal and the number of desks it matched.

    ``standing`` is the number of elections on the published card, None if no card is published.
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
    """The topic of the signal's event: one desk, the card, or None for the platform only."""
    if signal.user_id is None and signal.outcome == Outcome.FILLED:
        return signal.card_id
    return signal.user_id


def _sent_pair(submission: Submission) -> dict[str, str | None]:
    return {"pair": submission.pair, "direction": submission.direction}

"""Receives a signal: checks the law, takes the lock, matches, records and answers. Or checks it.

Everything that needs no lock happens before it. Under the lock run only the SQL statements of
``statements``, for all signals that wait. A refusal that was decided under the lock is recorded at
the signal's position.
"""

import logging
from datetime import datetime
from typing import NoReturn

from django.utils import timezone
from prometheus_client import Counter, Histogram

from desks.models import Automation
from events.http.refusals import Refused, SignatureInvalid, Unlawful
from events.json_schema import JsonObject
from events.unavailable_reasons import wait_of
from events.writer_queue import DATABASE_ERRORS
from signals.intake import statements
from signals.intake.decision import LawfulSignal, UnlawfulSignal, authority, check_authority
from signals.intake.incoming_signal import Allowance, IncomingSignal
from signals.intake.models import CHECKED, Accepted, Checked, Signal
from signals.intake.recording import submit
from signals.intake.statements import DecisionState
from signals.law import rules, signal_body
from signals.law.signal_body import Submission
from tokens.choices import Source

logger = logging.getLogger(__name__)

# No label of a metric names a user, a desk, a bot or a token.
RECEIVED = Counter(
    "signals_received",
    "Signals from authorised senders, by source and outcome",
    ["source", "outcome"],
)
INTAKE = Histogram(
    "signals_intake_seconds",
    "Seconds from an authorised body to its outcome, including the wait for the log's lock",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
)


def receive(incoming: IncomingSignal) -> Accepted:
    """Records a signal and returns the body of the response (contract, section 4).

    Raises the first refusal that applies. ``Unlawful`` is recorded within the sender's allowance,
    and so is ``NonceUsed``, unless the signal repeats the first one. ``Unauthenticated`` is raised
    if the credential ended before the signal got a position, and is not recorded.
    """
    outcome = "failed"
    try:
        with INTAKE.time():
            try:
                submission = parse_lawful(incoming)
            except Unlawful as refusal:
                _refuse(refusal, incoming)
            signal = submit(LawfulSignal(incoming, submission))
        outcome = signal.outcome
    except Refused:
        outcome = "refused"
        raise
    finally:
        RECEIVED.labels(incoming.source or "unknown", outcome).inc()
    return {**signal.answer(), "ignored": list(submission.ignored)}


def check(incoming: IncomingSignal) -> Checked:
    """Returns what the signal would do now. Raises the refusal that it would get.

    Records nothing and spends no nonce.
    """
    candidate, now = LawfulSignal(incoming, parse_lawful(incoming)), timezone.now()
    (state,) = statements.load_states([candidate.question()], now)
    first = statements.load_signals([state.spent_at] if state.spent_at else [])
    return judge(candidate, state, next(iter(first.values()), None), now)


def judge(
    candidate: LawfulSignal, state: DecisionState, first: Signal | None, now: datetime
) -> Checked:
    """The same for a state that is known. ``first`` is the signal that spent the nonce."""
    candidate.match(state, first, now)
    signal = candidate.signal
    return {
        "paper": True,
        "liveWrites": False,
        "outcome": CHECKED,
        "wouldBe": signal.outcome,
        "signal": {
            "source": signal.source,
            "mode": signal.mode,
            "pair": signal.pair,
            "direction": signal.direction,
            "nonce": signal.nonce,
            "fanout": signal.fanout,
            "userId": signal.user_id,
            "botId": signal.bot_id,
        },
        "matched": signal.matched,
        "filled": signal.filled,
        "ignored": list(candidate.submission.ignored),
    }


def parse_lawful(incoming: IncomingSignal) -> Submission:
    """Parses a body. Raises the refusal of the law that applies. Uses no database."""
    rules.check_body(incoming.body)
    return signal_body.read(incoming.body, incoming.deploy_to)


def record_bad_signature(body: JsonObject, request_id: str | None) -> None:
    """Records a push with a bad signature, so that the owner of the named bot sees it.

    If the log cannot be written, the push is not recorded: the sender's answer must not tell
    whether there is such a bot.
    """
    bot_id = body.get("botId")
    if body.get("source") == Source.TRADINGVIEW and isinstance(bot_id, str):
        bot = Automation.objects.not_removed().select_related("desk").filter(pk=bot_id).first()
        if bot is not None:
            unsigned = IncomingSignal(body, None, automation=bot, request_id=request_id)
            try:
                _refuse(SignatureInvalid(), unsigned)
            except SignatureInvalid:
                pass
            except DATABASE_ERRORS as error:
                logger.warning("A bad signature was not recorded: %s.", wait_of(error))


def _refuse(refusal: Refused, incoming: IncomingSignal) -> NoReturn:
    """Records a refusal that was decided before the lock, within the sender's allowance; raises it.

    Raises ``Unauthenticated`` instead if the credential has ended.
    """
    if incoming.allowance is not Allowance.REPORTED:
        submit(UnlawfulSignal(incoming, refusal))
    elif incoming.credential is not None:
        (state,) = statements.load_states([authority(incoming)], timezone.now())
        check_authority(incoming, state)
    raise refusal

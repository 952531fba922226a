"""Receives a signal: checks the law, takes the lock, matches, records and answers.

Everything that needs no lock happens before it. Under the lock run only the SQL statements of
``statements``, for all signals that wait. A refusal that was decided under the lock is recorded at
the signal's position.
"""

from contextlib import suppress
from typing import NoReturn

from django.utils import timezone

from desks.models import Automation
from events.http.refusals import Refused, SignatureInvalid, Unlawful
from events.json_schema import JsonObject
from signals.intake import metrics, statements
from signals.intake.batch import submit
from signals.intake.decision import LawfulSignal, UnlawfulSignal, authority, check_authority
from signals.intake.incoming import Allowance, IncomingSignal
from signals.intake.models import Accepted
from signals.law import rules, shapes
from signals.law.shapes import Submission
from tokens.choices import Source


def receive(incoming: IncomingSignal) -> Accepted:
    """Records a signal and returns the body of the response (contract, section 4).

    Raises the first refusal that applies. ``Unlawful`` is recorded within the sender's allowance,
    and so is ``NonceUsed``, unless the signal repeats the first one. ``Unauthenticated`` is raised
    if the credential ended before the signal got a position, and is not recorded.
    """
    outcome = metrics.FAILED
    try:
        with metrics.INTAKE.time():
            answer = _receive(incoming)
        outcome = answer["outcome"]
    except Refused:
        outcome = metrics.REFUSED
        raise
    finally:
        metrics.RECEIVED.labels(incoming.source or metrics.UNKNOWN, outcome).inc()
    return answer


def _receive(incoming: IncomingSignal) -> Accepted:
    try:
        submission = parse_lawful(incoming)
    except Unlawful as refusal:
        _refuse(refusal, incoming)
    signal = submit(LawfulSignal(incoming, submission))
    return {**signal.answer(), "ignored": list(submission.ignored)}


def preview(incoming: IncomingSignal) -> LawfulSignal:
    """Returns the signal with what it would match now. Raises the refusal that would apply.

    Records nothing and spends no nonce.
    """
    candidate = LawfulSignal(incoming, parse_lawful(incoming))
    now = timezone.now()
    (state,) = statements.load_states([candidate.question()], now)
    first = statements.load_signals([state.spent_at] if state.spent_at else [])
    candidate.match(state, next(iter(first.values()), None), now)
    return candidate


def parse_lawful(incoming: IncomingSignal) -> Submission:
    """Parses a body. Raises the refusal of the law that applies. Uses no database."""
    rules.check_body(incoming.body)
    return shapes.read(incoming.body, incoming.deploy_to)


def record_bad_signature(body: JsonObject, request_id: str | None) -> None:
    """Records a push with a bad signature, so that the owner of the named bot sees it."""
    bot_id = body.get("botId")
    if body.get("source") == Source.TRADINGVIEW and isinstance(bot_id, str):
        bot = Automation.objects.not_removed().select_related("desk").filter(pk=bot_id).first()
        if bot is not None:
            unsigned = IncomingSignal(body, None, automation=bot, request_id=request_id)
            with suppress(SignatureInvalid):
                _refuse(SignatureInvalid(), unsigned)


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

"""Decides one candidate signal at its position, from the state that was read under the log's lock.

Nothing here runs SQL. A candidate is accepted, or refused by the first refusal that applies. Only
an accepted one becomes a row of ``Signal``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import NoReturn

from events.http.refusals import (
    FloorSecretRefused,
    NotFound,
    Refused,
    SignatureInvalid,
    TokenInvalid,
    Unlawful,
)
from events.kinds import Kind
from events.log import Turn
from events.models import Event
from signals.intake.incoming_signal import IncomingSignal
from signals.intake.models import Outcome, Signal
from signals.intake.statements import DecisionState, StateQuery
from signals.law import rules
from signals.law.refusals import NonceUsed
from signals.law.signal_body import Mode, Submission
from tokens.choices import Source
from tokens.models import SigningSecret, Token


@dataclass(slots=True)
class LawfulSignal:
    """A signal that keeps the law on its own. What it must match is not known yet."""

    incoming: IncomingSignal
    submission: Submission
    signal: Signal = field(init=False)

    def __post_init__(self) -> None:
        self.signal = _build_signal(self.submission, self.incoming)

    @property
    def user_id(self) -> str | None:
        return self.signal.user_id

    @property
    def sent(self) -> Mapping[str, object]:
        return self.submission.pair_and_direction

    def question(self) -> StateQuery:
        """What its state depends on."""
        signal = self.signal
        return {
            **authority(self.incoming),
            "signer": signal.signer,
            "nonce": signal.nonce,
            "user_id": signal.user_id,
            "bot_id": signal.bot_id,
        }

    def match(self, state: DecisionState, first: Signal | None, at: datetime) -> None:
        """Sets what the signal matches at ``at``. Raises the first refusal that applies.

        ``first`` is the signal that spent the nonce.
        """
        check_authority(self.incoming, state)
        submission = self.submission
        rules.check_sent_at(submission, state.max_age)
        if submission.user_id is not None and state.user_id is None:
            raise NotFound("There is no such desk.")
        if first is not None:
            raise NonceUsed(first=first.answer(), identical=first.is_identical_to(self.signal))
        rules.check_age(submission, state.max_age, at)
        elected = rules.required_election(
            submission, card=state.card, elected=state.elected, not_ready=why_not_ready(state)
        )
        rules.check_match(submission, elected)
        signal = self.signal
        signal.card_id = None if signal.bot_id else state.card_id
        signal.outcome, signal.matched = _outcome(submission, state.standing or 0)
        signal.filled = signal.matched if signal.outcome == Outcome.FILLED else 0

    def decide(
        self, turn: Turn, state: DecisionState, first: Signal | None
    ) -> tuple[Signal, Event]:
        """Completes the signal at the turn's position. Raises what ``match`` raises."""
        self.match(state, first, turn.at)
        signal = self.signal
        signal.position, signal.received_at = turn.position, turn.at
        return signal, _build_event(turn, signal)

    def is_recorded(self, refusal: Refused) -> bool:
        """Whether the log records this refusal, within the sender's allowance.

        The repetition of an accepted signal is a safe retry, not a refusal to tell its owner about.
        """
        if isinstance(refusal, NonceUsed):
            return not refusal.members["identical"]
        return isinstance(refusal, Unlawful)


@dataclass(slots=True)
class UnlawfulSignal:
    """A signal that was refused before the lock. Only its refusal gets a position."""

    incoming: IncomingSignal
    refusal: Refused
    user_id: str | None = field(init=False)
    sent: Mapping[str, object] = field(init=False)

    def __post_init__(self) -> None:
        self.user_id, self.sent = self.incoming.user_id(), self.incoming.sent()

    def question(self) -> StateQuery:
        """What its state depends on: the credential, and what the bot elected."""
        bot = self.incoming.automation
        return {**authority(self.incoming), "bot_id": bot.pk if bot else None}

    def decide(self, turn: Turn, state: DecisionState, first: Signal | None) -> NoReturn:
        """Raises the refusal, or the one of a credential that is no longer valid."""
        check_authority(self.incoming, state)
        raise self.refusal

    def is_recorded(self, refusal: Refused) -> bool:
        """Whether it is the signal's own refusal, not that of its credential."""
        return refusal is self.refusal


def check_authority(incoming: IncomingSignal, state: DecisionState) -> None:
    """Raises ``Unauthenticated`` if the credential was not valid at the time of the turn."""
    if not state.credential_is_valid:
        raise TokenInvalid if isinstance(incoming.credential, Token) else SignatureInvalid
    if state.nox_has_own_secret:
        raise FloorSecretRefused


def why_not_ready(state: DecisionState) -> str:
    """Why the desk has no election on the published card: a key of ``DeskNotReady.REASONS``.

    A desk whose account is closed is deactivated.
    """
    if state.deactivated:
        return "deactivated"
    if not state.connected:
        return "not_connected"
    if state.enrolled_id:
        return "card_changed"
    return "withdrawn" if state.was_enrolled else "not_enrolled"


Candidate = LawfulSignal | UnlawfulSignal  # a signal before its turn at the log


def _build_event(turn: Turn, signal: Signal) -> Event:
    counts = {"matched": signal.matched}
    if signal.outcome == Outcome.FILLED:
        counts["filled"] = signal.filled
    everything = signal.to_dict()
    return turn.build_event(
        Kind(f"signal.{signal.outcome}"),
        topic=_topic(signal),
        data={},
        platform_data=counts,
        signal=signal.visible_to_desks(everything),
        platform_signal=everything,
    )


def authority(incoming: IncomingSignal) -> StateQuery:
    """What the validity of the credential depends on."""
    match incoming.credential:
        case Token() as token:
            return {"token": token.public_id}
        case SigningSecret() as secret:
            is_for_nox = incoming.source == Source.NOX and secret.source != Source.NOX
            return {"secret": secret.public_id, "stands_in": is_for_nox}
        case None:
            return {}


# What a signal keeps of its submission. ``dataclasses.asdict`` copies every value, for a tenth of
# the time of a batch.
STORED = [stored.name for stored in fields(Submission) if stored.name not in ("sent_at", "ignored")]


def _build_signal(submission: Submission, incoming: IncomingSignal) -> Signal:
    """Builds the signal, without what is only known under the lock: position, time and match."""
    size = submission.size_quote
    stored = {name: getattr(submission, name) for name in STORED} | {
        # A nonce is single-use within its signer (contract, section 1).
        "signer": submission.bot_id or submission.source,
        "user_id": incoming.owner_id or submission.user_id,
        "credential": incoming.credential_id or "",  # empty for a dry check
        "size_quote": None if size is None else f"{size:f}",
    }
    return Signal(**stored)


def _outcome(submission: Submission, standing: int) -> tuple[Outcome, int]:
    """Returns the outcome of a lawful signal and the number of desks it matched.

    ``standing`` is the number of elections on the published card.
    """
    if submission.mode == Mode.DRAFT:
        return Outcome.RECORDED, 0
    matched = int(submission.has_target)
    if submission.fanout and submission.user_id is None:
        matched = standing
    if submission.mode == Mode.DRY_RUN:
        return Outcome.DRY_RUN, matched
    return (Outcome.FILLED, matched) if submission.has_target else (Outcome.RECORDED, 0)


def _topic(signal: Signal) -> str | None:
    """The topic of the signal's event: one desk, the card, or None for the platform only."""
    if signal.user_id is None and signal.outcome == Outcome.FILLED:
        return signal.card_id
    return signal.user_id

"""Accepted signals."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, NotRequired, Self, TypedDict

from django.db import models
from django.db.models import Q
from django.urls import reverse

from desks.ids import EXAMPLE_SIGNAL_ID, MAX_ID_LENGTH, BotId, SignalId, UserId, new_signal_id
from desks.pair_and_direction import MAX_PAIR_LENGTH, Direction, PairAndDirection
from events.actors import ActorRecord
from events.http.refusals import FieldError
from events.http.schemas import PaperOnly
from events.json_schema import Count, DateTime, Example, JsonSchema, Position, one_of, pattern
from events.kinds import Kind, data_of
from events.times import to_rfc3339
from signals.law import signal_body
from signals.law.signal_body import (
    DIGITS_AFTER_POINT,
    DIGITS_BEFORE_POINT,
    MAX_DECISION_REF_LENGTH,
    MAX_NONCE_LENGTH,
    MAX_RATIONALE_LENGTH,
    Mode,
)
from tokens.choices import Source

# Fifteen digits, a point and eight digits fit easily.
MAX_AMOUNT_LENGTH = 32
# Shown only to the platform and to the signal's sender (contract, section 4, events).
SENDER_MEMBERS = ("nonce", "traceId", "decisionRef")

CHECKED = "checked"  # the outcome of a check


class Outcome(models.TextChoices):
    """The outcome of an accepted signal."""

    FILLED = "filled"
    DRY_RUN = "dry_run"
    RECORDED = "recorded"


Amount = Annotated[
    str,
    pattern(
        rf"[0-9]{{1,{DIGITS_BEFORE_POINT}}}(\.[0-9]{{1,{DIGITS_AFTER_POINT}}})?", format="decimal"
    ),
]
EXAMPLE_NONCE = "20261120-0930-1"
Nonce = Annotated[str, JsonSchema(signal_body.NONCE.schema), Example(EXAMPLE_NONCE)]
Path = Annotated[str, JsonSchema(format="uri-reference")]
SourceName = Annotated[str, one_of(Source), Example(Source.FLOOR.value)]
ModeName = Annotated[str, one_of(Mode), Example(Mode.PAPER.value)]
OutcomeName = Annotated[str, one_of(Outcome.values)]
TargetDesk = Annotated[UserId | None, "The target desk. For a bot, its owner's desk."]


class SignalOfDesk(PairAndDirection):
    """A signal as desks see it, unless their own automation sent it."""

    id: SignalId
    source: SourceName
    mode: ModeName
    fanout: bool
    userId: TargetDesk
    botId: BotId | None
    sizeQuote: Amount | None
    rationale: Annotated[str, JsonSchema(signal_body.RATIONALE.schema)] | None
    receivedAt: DateTime
    position: Position


class SignalRecord(SignalOfDesk):
    """A signal as its sender and the platform see it."""

    nonce: Nonce
    traceId: Annotated[str, JsonSchema(signal_body.TRACE_ID.schema)] | None
    decisionRef: Annotated[str, JsonSchema(signal_body.DECISION_REF.schema)] | None


class FirstAnswer(PaperOnly):
    """The answer to an accepted signal, as its sender got it."""

    outcome: OutcomeName
    signal: SignalRecord
    matched: Annotated[Count, "Number of desks."]
    filled: Annotated[Count, "Number of desks."]
    events: Annotated[
        Path,
        "Path that lists the signal's event.",
        Example(f"/api/v1/events?signal={EXAMPLE_SIGNAL_ID}"),
    ]
    desks: Annotated[
        Path,
        "Path that lists the filled desks.",
        Example(f"/api/v1/desks?signal={EXAMPLE_SIGNAL_ID}"),
    ]


Ignored = Annotated[
    list[Annotated[str, JsonSchema(maxLength=signal_body.MAX_IGNORED_LENGTH)]],
    JsonSchema(maxItems=signal_body.MAX_IGNORED),
    Example([]),
]


class Accepted(FirstAnswer):
    """The outcome of an accepted signal. It is sent after the signal was committed."""

    ignored: Annotated[Ignored, "Names of the fields that were ignored."]


class CheckedSignal(PairAndDirection):
    """A signal as the check read it."""

    source: SourceName
    mode: ModeName
    nonce: Nonce
    fanout: bool
    userId: TargetDesk
    botId: BotId | None


class Checked(PaperOnly):
    """What a signal would do if it were sent to the hook now."""

    outcome: Annotated[str, one_of([CHECKED])]
    wouldBe: Annotated[OutcomeName, "The outcome that the hook would give."]
    signal: CheckedSignal
    matched: Annotated[Count, "Number of desks."]
    filled: Annotated[Count, "Number of desks that it would fill."]
    ignored: Annotated[Ignored, "Names of the fields that would be ignored."]


class SpentNonce(TypedDict):
    """The extra members of the refusal of a spent nonce."""

    first: FirstAnswer
    identical: Annotated[bool, "Whether this signal is identical to the first."]


@data_of(Kind.SIGNAL_FILLED, Kind.SIGNAL_DRY_RUN, Kind.SIGNAL_RECORDED)
class SignalData(TypedDict):
    """Data of ``signal.filled``, ``signal.dry_run`` and ``signal.recorded``, for the platform."""

    matched: NotRequired[Count]
    filled: NotRequired[Count]


class SentPairAndDirection(TypedDict):
    """The pair and direction of a refused signal."""

    pair: str | None
    direction: str | None


@data_of(Kind.SIGNAL_REFUSED)
class RefusalData(TypedDict):
    """Data of ``signal.refused``."""

    code: Annotated[str, "The refusal's code, or refusals_suppressed."]
    source: SourceName | None
    sent: SentPairAndDirection
    elected: PairAndDirection | None
    botId: BotId | None
    errors: NotRequired[Annotated[list[FieldError], "Of invalid: as the answer has them."]]
    requestId: NotRequired[
        Annotated[str, "Of the refused request. For the platform and the sender's owner."]
    ]
    nonce: NotRequired[
        Annotated[
            str | None,
            "Null if nothing authorised the request, if the body contains a secret, or if there is "
            "no valid one. For the platform and the sender's owner.",
        ]
    ]
    suppressed: NotRequired[
        Annotated[Count, "Of refusals_suppressed: how many are not recorded, at least."]
    ]
    sender: NotRequired[
        Annotated[ActorRecord | None, "The sender of the suppressed refusals. Only in old events."]
    ]


class SignalQuerySet(models.QuerySet["Signal"]):
    def spending(self, signer: str, nonce: str) -> Self:
        """The signal that used this nonce, if there is one."""
        return self.filter(signer=signer, nonce=nonce)

    def by_bots_of(self, user_id: str) -> Self:
        """Signals of this desk's own bots, removed ones included."""
        return self.filter(user_id=user_id, bot_id__isnull=False)


class Signal(models.Model):
    """An accepted signal. It is written once, at the same log position as its event.

    The ids of the desk, bot, card and credential are text, not foreign keys: the row records the
    state at its position. ``size_quote`` is text because SQLite would round a decimal.
    """

    position = models.BigIntegerField(primary_key=True)
    public_id = models.CharField(max_length=MAX_ID_LENGTH, default=new_signal_id)
    signer = models.CharField(max_length=MAX_ID_LENGTH)
    nonce = models.CharField(max_length=MAX_NONCE_LENGTH)
    source = models.CharField(max_length=16, choices=Source.choices())
    mode = models.CharField(max_length=8, choices=[(mode.value, mode.value) for mode in Mode])
    outcome = models.CharField(max_length=8, choices=Outcome)
    pair = models.CharField(max_length=MAX_PAIR_LENGTH)
    direction = models.CharField(max_length=5, choices=Direction.choices())
    fanout = models.BooleanField()
    user_id = models.CharField(max_length=MAX_ID_LENGTH, null=True)  # noqa: DJ001 - None: no one desk
    bot_id = models.CharField(max_length=MAX_ID_LENGTH, null=True)  # noqa: DJ001 - None: no bot
    card_id = models.CharField(max_length=MAX_ID_LENGTH, null=True)  # noqa: DJ001 - None: a bot's
    credential = models.CharField(max_length=MAX_ID_LENGTH)
    trace_id = models.CharField(max_length=MAX_NONCE_LENGTH, null=True)  # noqa: DJ001
    size_quote = models.CharField(max_length=MAX_AMOUNT_LENGTH, null=True)  # noqa: DJ001
    rationale = models.CharField(max_length=MAX_RATIONALE_LENGTH, null=True)  # noqa: DJ001
    decision_ref = models.CharField(max_length=MAX_DECISION_REF_LENGTH, null=True)  # noqa: DJ001
    received_at = models.DateTimeField()
    matched = models.PositiveIntegerField()
    filled = models.PositiveIntegerField()

    epoch: str  # the log's: of a signal that was just written

    objects = SignalQuerySet.as_manager()

    class Meta:
        ordering = ["-position"]
        constraints = [
            models.UniqueConstraint(fields=["public_id"], name="signal_public_id"),
            models.UniqueConstraint(fields=["nonce", "signer"], name="nonce_is_single_use"),
            models.CheckConstraint(
                condition=Q(outcome="filled", filled=models.F("matched")) | Q(filled=0),
                name="signal_fills_what_it_matched",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id

    def is_identical_to(self, other: "Signal") -> bool:
        """Returns whether the other signal repeats this one exactly, in what the sender says."""
        said = [
            {**signal.to_dict(), "id": "", "receivedAt": "", "position": 0, "sizeQuote": size}
            for signal in (self, other)
            for size in [Decimal(signal.size_quote or 0)]
        ]
        return said[0] == said[1]

    def to_dict(self) -> SignalRecord:
        """The JSON for the sender and the platform."""
        return {
            "id": self.public_id,
            "source": self.source,
            "mode": self.mode,
            "pair": self.pair,
            "direction": self.direction,
            "nonce": self.nonce,
            "fanout": self.fanout,
            "userId": self.user_id,
            "botId": self.bot_id,
            "traceId": self.trace_id,
            "sizeQuote": self.size_quote,
            "rationale": self.rationale,
            "decisionRef": self.decision_ref,
            "receivedAt": to_rfc3339(self.received_at),
            "position": self.position,
        }

    def visible_to_desks(self, everything: SignalRecord) -> Mapping[str, object]:
        """``everything`` without ``SENDER_MEMBERS``, unless the desk's own bot sent it."""
        if self.bot_id is not None:
            return everything
        return {name: value for name, value in everything.items() if name not in SENDER_MEMBERS}

    def answer(self) -> FirstAnswer:
        """The response to the sender, without ``ignored``."""
        query = f"?signal={self.public_id}"
        return {
            "paper": True,
            "liveWrites": False,
            "outcome": self.outcome,
            "signal": self.to_dict(),
            "matched": self.matched,
            "filled": self.filled,
            "events": reverse("events") + query,
            "desks": reverse("desks") + query,
        }

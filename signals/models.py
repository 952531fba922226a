"""A signal that was accepted: what it said, and what it did."""

import functools
from decimal import Decimal
from typing import Any, Self

from django.db import models
from django.db.models import Q
from django.urls import reverse

from desks.ids import LONGEST_ID, new_id
from desks.models.card import LONGEST_PAIR, Direction
from events.times import written
from signals.shapes import (
    LONGEST_DECISION_REF,
    LONGEST_NONCE,
    LONGEST_RATIONALE,
    Mode,
    Submission,
)
from tokens.models import Source

# A sign, fifteen digits, a point and eight digits are written with room to spare.
LONGEST_AMOUNT = 32
# What only the platform and the signal's own sender are shown (contract, section 4, events).
SENDERS_OWN = ("nonce", "traceId", "decisionRef")

# What two submissions have in common that say the same, beside their target and size.
COMPARED = (
    "source",
    "mode",
    "pair",
    "direction",
    "fanout",
    "bot_id",
    "trace_id",
    "rationale",
    "decision_ref",
)


class Outcome(models.TextChoices):
    """What became of an accepted signal."""

    FILLED = "filled"
    DRY_RUN = "dry_run"
    RECORDED = "recorded"


@functools.cache
def path_of(name: str) -> str:
    """The path of a list, found once: every answer names two."""
    return reverse(name)


def new_signal_id() -> str:
    return new_id("sig_")


class SignalQuerySet(models.QuerySet["Signal"]):
    def spending(self, signer: str, nonce: str) -> Self:
        """The signal that spent this nonce: one or none."""
        return self.filter(signer=signer, nonce=nonce)


class Signal(models.Model):
    """Written once, with its event, at the same position of the log.

    The ids of desk, bot, card and credential are text: the row says what was so at its position.
    ``size_quote`` is text because SQLite would round a decimal.
    """

    position = models.BigIntegerField(primary_key=True)
    public_id = models.CharField(max_length=LONGEST_ID, default=new_signal_id)
    signer = models.CharField(max_length=LONGEST_ID)
    nonce = models.CharField(max_length=LONGEST_NONCE)
    source = models.CharField(max_length=16, choices=Source)
    mode = models.CharField(max_length=8, choices=[(mode, mode) for mode in Mode])
    outcome = models.CharField(max_length=8, choices=Outcome)
    pair = models.CharField(max_length=LONGEST_PAIR)
    direction = models.CharField(max_length=5, choices=Direction)
    fanout = models.BooleanField()
    user_id = models.CharField(max_length=LONGEST_ID, null=True)  # noqa: DJ001 - null: no one desk
    bot_id = models.CharField(max_length=LONGEST_ID, null=True)  # noqa: DJ001 - null: no bot
    card_id = models.CharField(max_length=LONGEST_ID, null=True)  # noqa: DJ001 - null: a bot's
    credential = models.CharField(max_length=LONGEST_ID)
    trace_id = models.CharField(max_length=LONGEST_NONCE, null=True)  # noqa: DJ001
    size_quote = models.CharField(max_length=LONGEST_AMOUNT, null=True)  # noqa: DJ001
    rationale = models.CharField(max_length=LONGEST_RATIONALE, null=True)  # noqa: DJ001
    decision_ref = models.CharField(max_length=LONGEST_DECISION_REF, null=True)  # noqa: DJ001
    received_at = models.DateTimeField()
    matched = models.PositiveIntegerField()
    filled = models.PositiveIntegerField()

    objects = SignalQuerySet.as_manager()

    class Meta:
        ordering = ["-position"]
        constraints = [
            models.UniqueConstraint(fields=["public_id"], name="signal_public_id"),
            models.UniqueConstraint(fields=["signer", "nonce"], name="nonce_is_single_use"),
            models.CheckConstraint(
                condition=Q(outcome="filled", filled=models.F("matched")) | Q(filled=0),
                name="signal_fills_what_it_matched",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id

    def says_the_same_as(self, submission: Submission) -> bool:
        """Whether another submission means exactly this signal."""
        size = None if self.size_quote is None else Decimal(self.size_quote)
        target = submission.user_id if self.bot_id is None else self.user_id
        return (size, self.user_id) == (submission.size_quote, target) and all(
            getattr(self, name) == getattr(submission, name) for name in COMPARED
        )

    def as_json(self) -> dict[str, Any]:
        """The signal as its sender and the platform see it."""
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
            "receivedAt": written(self.received_at),
            "position": self.position,
        }

    def as_desk_json(self) -> dict[str, Any]:
        """The signal as the desks see it: all of it only where their own bot sent it."""
        whole = self.as_json()
        if self.bot_id is not None:
            return whole
        return {name: value for name, value in whole.items() if name not in SENDERS_OWN}

    def answer(self) -> dict[str, Any]:
        """What the sender was told, but for the names that were ignored."""
        of_this = f"?signal={self.public_id}"
        return {
            "paper": True,
            "liveWrites": False,
            "outcome": self.outcome,
            "signal": self.as_json(),
            "matched": self.matched,
            "filled": self.filled,
            "events": path_of("events") + of_this,
            "desks": path_of("desks") + of_this,
        }

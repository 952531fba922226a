"""A customer's choice of a pair and a direction, from the position that opened it to its end."""

from typing import Self

from django.db import models
from django.db.models import F, Q, Value
from django.db.models.functions import Coalesce, Least

from desks.models.card import LONGEST_PAIR, Direction
from events.feed import ENDLESS, SPANS_A_PAGE, Span, Window


class Reason(models.TextChoices):
    """Why an election was withdrawn."""

    ASKED = "asked"
    DISCONNECTED = "disconnected"
    REMOVED = "removed"
    REPLACED = "replaced"
    DEACTIVATED = "deactivated"


class ElectionQuerySet(models.QuerySet["Election"]):
    def standing(self) -> Self:
        """Elections that nobody withdrew, and whose card, if they have one, is published."""
        return self.filter(Q(closed__isnull=True) & (Q(card=None) | Q(card__closed=None)))

    def with_end(self) -> Self:
        """With ``end``, the position at which each stopped to stand: its own, or its card's."""
        endless = Value(ENDLESS, output_field=models.BigIntegerField())
        return self.annotate(
            end=Least(Coalesce(F("closed"), endless), Coalesce(F("card__closed"), endless))
        )

    def spans(self, window: Window) -> list[Span]:
        """The stretches of cards' topics that these elections open to a reader of this window.

        At most one more than a page of the feed reads: they never overlap, so their order is time.
        """
        touching = (
            self.with_end()
            .filter(card__isnull=False, opened__lt=window.high)
            .filter(end__gt=window.low)  # type: ignore[misc]
            .order_by("-opened" if window.descending else "opened")
        )
        rows = touching.values_list("card_id", "opened", "end")  # type: ignore[misc]
        return [Span(*row) for row in rows[: SPANS_A_PAGE + 1]]


class Election(models.Model):
    """Consent to exactly one pair and direction: on a card (then it is the card's), or for a bot.

    A retired card closes the card's row and not its elections': where the interval of an election
    is read, its end is the earlier of the two (``with_end``).
    """

    # Desk and card have their indexes below.
    desk = models.ForeignKey("desks.Desk", models.PROTECT, related_name="elections", db_index=False)
    card = models.ForeignKey(
        "desks.Card", models.PROTECT, null=True, related_name="elections", db_index=False
    )
    automation = models.ForeignKey(
        "desks.Automation", models.PROTECT, null=True, related_name="elections"
    )
    pair = models.CharField(max_length=LONGEST_PAIR)
    direction = models.CharField(max_length=5, choices=Direction)
    opened = models.BigIntegerField(unique=True)
    closed = models.BigIntegerField(null=True)
    elected_at = models.DateTimeField()

    objects = ElectionQuerySet.as_manager()

    class Meta:
        ordering = ["opened"]
        indexes = [
            models.Index(fields=["card", "opened"], name="election_card"),
            models.Index(fields=["desk", "opened"], name="election_desk"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["desk", "card"],
                condition=Q(closed__isnull=True, card__isnull=False),
                name="one_election_of_a_desk_on_a_card",
            ),
            models.UniqueConstraint(
                fields=["automation"],
                condition=Q(closed__isnull=True, automation__isnull=False),
                name="one_election_of_an_automation",
            ),
            models.CheckConstraint(
                condition=Q(card__isnull=False, automation__isnull=True)
                | Q(card__isnull=True, automation__isnull=False),
                name="election_on_a_card_or_an_automation",
            ),
            models.CheckConstraint(
                condition=Q(closed__isnull=True) | Q(closed__gt=F("opened")),
                name="election_closes_after_it_opens",
            ),
            models.CheckConstraint(
                condition=Q(direction__in=Direction.values), name="election_direction_is_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.pair} {self.direction}"

    def as_json(self) -> dict[str, str]:
        """The election as the log shows it, with the card's name or the bot's id."""
        on = {"card": self.card.name} if self.card else {"botId": str(self.automation_id)}
        return {"pair": self.pair, "direction": self.direction, **on}

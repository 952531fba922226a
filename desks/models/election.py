"""Elections: a customer's choice of a pair and a direction."""

from typing import Self

from django.db import models
from django.db.models import F, Q, Value
from django.db.models.functions import Coalesce, Least

from desks.event_data import ElectionData, WithdrawalReason
from desks.pair_and_direction import MAX_PAIR_LENGTH, Direction
from events.feed import MAX_POSITION


class ElectionQuerySet(models.QuerySet["Election"]):
    def standing(self) -> Self:
        """Elections that are not withdrawn and whose card, if any, is still published."""
        return self.filter(Q(closed__isnull=True) & (Q(card=None) | Q(card__closed=None)))

    def with_end(self) -> Self:
        """Annotates ``end``, the position at which the election or its card was closed.

        ``end`` is ``MAX_POSITION`` for a standing election.
        """
        never = Value(MAX_POSITION, output_field=models.BigIntegerField())
        return self.annotate(
            end=Least(Coalesce(F("closed"), never), Coalesce(F("card__closed"), never))
        )


class Election(models.Model):
    """Consent to exactly one pair and direction: those of a card, or those chosen for a bot.

    ``opened`` and ``closed`` are the positions at which it was made and withdrawn. Retiring a card
    closes only the card's row, so an election ends at the earlier of the two (``with_end``).
    """

    # Desk and card have composite indexes below.
    desk = models.ForeignKey("desks.Desk", models.PROTECT, related_name="elections", db_index=False)
    card = models.ForeignKey(
        "desks.Card", models.PROTECT, null=True, related_name="elections", db_index=False
    )
    automation = models.ForeignKey(
        "desks.Automation", models.PROTECT, null=True, related_name="elections"
    )
    pair = models.CharField(max_length=MAX_PAIR_LENGTH)
    direction = models.CharField(max_length=5, choices=Direction.choices())
    opened = models.BigIntegerField(unique=True)
    closed = models.BigIntegerField(null=True)
    elected_at = models.DateTimeField()
    reason = models.CharField(max_length=16, choices=WithdrawalReason, null=True)  # noqa: DJ001 - None: open

    objects = ElectionQuerySet.as_manager()

    class Meta:
        ordering = ["opened"]
        indexes = [
            models.Index(fields=["card", "opened"], name="election_card"),
            models.Index(fields=["desk", "opened"], name="election_desk"),
            models.Index(
                fields=["desk", "opened"], name="election_open", condition=Q(closed__isnull=True)
            ),
            # A desk's bots can have any number of elections. Whether the desk ever enrolled is read
            # under the log's lock, and each page of its feed reads when.
            models.Index(
                fields=["desk", "opened"],
                name="election_enrolled",
                condition=Q(card__isnull=False),
            ),
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
                condition=Q(direction__in=Direction.values()), name="election_direction_is_known"
            ),
            models.CheckConstraint(
                condition=Q(closed=None, reason=None)
                | Q(closed__isnull=False, reason__isnull=False, reason__in=WithdrawalReason.values),
                name="election_closes_for_a_reason",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.pair} {self.direction}"

    def as_event_data(self) -> ElectionData:
        """The data of an event: pair and direction, with the card's name and id or the bot's id."""
        data: ElectionData = {"pair": self.pair, "direction": self.direction}
        if self.card:
            return {**data, "card": self.card.name, "cardId": self.card.pk}
        return {**data, "botId": str(self.automation_id)}

"""Cards: the name, pair and direction that signals to enrolled desks must repeat."""

from typing import Self

from django.db import models
from django.db.models import Q
from django.db.models.functions import Coalesce

from desks.event_data import CardData
from desks.ids import MAX_ID_LENGTH, new_card_id
from desks.pair_and_direction import MAX_PAIR_LENGTH, Direction, PublishedCard
from events.http.name_rules import MAX_NAME_LENGTH


class CardQuerySet(models.QuerySet["Card"]):
    def published(self) -> Self:
        """The published card. There is at most one."""
        return self.filter(closed__isnull=True)


class Card(models.Model):
    """A card. Its name, pair and direction never change.

    ``opened`` and ``closed`` are the positions at which it was published and retired. ``standing``
    counts the standing elections on the card. It is updated under the log's lock, so that a fan-out
    does not have to count. A retired card keeps its last count.
    """

    id = models.CharField(primary_key=True, max_length=MAX_ID_LENGTH, default=new_card_id)
    name = models.CharField(max_length=MAX_NAME_LENGTH)
    pair = models.CharField(max_length=MAX_PAIR_LENGTH)
    direction = models.CharField(max_length=5, choices=Direction.choices())
    opened = models.BigIntegerField(unique=True)
    closed = models.BigIntegerField(null=True)
    published_at = models.DateTimeField()
    retired_at = models.DateTimeField(null=True)
    standing = models.PositiveIntegerField(default=0)

    objects = CardQuerySet.as_manager()

    class Meta:
        ordering = ["-opened"]
        constraints = [
            models.UniqueConstraint(
                Coalesce("closed", 0),
                condition=Q(closed__isnull=True),
                name="one_card_is_published",
            ),
            models.CheckConstraint(
                condition=Q(closed__isnull=True, retired_at__isnull=True)
                | Q(
                    closed__isnull=False,
                    closed__gt=models.F("opened"),
                    retired_at__isnull=False,
                ),
                name="card_closes_after_it_opens",
            ),
            models.CheckConstraint(
                condition=Q(direction__in=Direction.values()), name="card_direction_is_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.pair} {self.direction})"

    def changed_since(self, position: int) -> bool:
        """Whether it was published or retired after this position of the log."""
        return max(self.opened, self.closed or 0) > position

    def to_dict(self) -> PublishedCard:
        """The card as the API shows it: exactly name, pair and direction."""
        return {"name": self.name, "pair": self.pair, "direction": self.direction}

    def as_event_data(self) -> CardData:
        """The data of ``card.published`` and ``card.retired``."""
        return {"card": self.to_dict(), "cardId": self.pk}

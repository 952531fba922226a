"""The published card: the name, pair and direction that a signal must repeat."""

from typing import Self

from django.db import models
from django.db.models import Q
from django.db.models.functions import Coalesce

from desks.ids import LONGEST_ID, new_card_id

LONGEST_PAIR = 41
LONGEST_NAME = 80
PAIR_FORM = r"[A-Z0-9._-]{1,20}/[A-Z0-9._-]{1,20}"


class Direction(models.TextChoices):
    LONG = "long"
    SHORT = "short"


class CardQuerySet(models.QuerySet["Card"]):
    def published(self) -> Self:
        """The published card: one or none."""
        return self.filter(closed__isnull=True)


class Card(models.Model):
    """A card from the position that published it to the one that retired it; it never changes.

    ``standing`` is how many elections stand on it: kept under the log's lock, so that a fan-out
    knows whom it matches without counting. A retired card keeps its last number.
    """

    id = models.CharField(primary_key=True, max_length=LONGEST_ID, default=new_card_id)
    name = models.CharField(max_length=LONGEST_NAME)
    pair = models.CharField(max_length=LONGEST_PAIR)
    direction = models.CharField(max_length=5, choices=Direction)
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
                condition=Q(direction__in=Direction.values), name="card_direction_is_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.pair} {self.direction})"

    def as_json(self) -> dict[str, str]:
        """The card as catalog, contract and log show it: exactly name, pair and direction."""
        return {"name": self.name, "pair": self.pair, "direction": self.direction}

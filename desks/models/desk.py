"""A desk: what a user owns here, one each."""

from typing import Self

from django.db import models
from django.db.models import F, FilteredRelation, Q

from desks.ids import LONGEST_ID, new_user_id
from desks.models.card import Card
from events.models import Event


class DeskQuerySet(models.QuerySet["Desk"]):
    def with_standing(self, card: Card | None, behind: int = 0) -> Self:
        """With ``standing``, the desk's standing election on this card, null where there is none.

        ``card`` is the published one; null while there is none, when no desk is ready. ``linked``
        is the desk's connection. Of a desk up to ``behind``, an id, there is neither: for a list
        that begins there, since PostgreSQL has one plan for every depth of it, and would read all.
        """
        on_card = Q(elections__card=card.pk if card else "", elections__closed=None)
        return self.alias(
            standing=FilteredRelation(
                "elections", condition=on_card & Q(elections__desk__gt=behind)
            ),
            linked=FilteredRelation("connection", condition=Q(connection__desk__gt=behind)),
        )

    def ready(self, card: Card | None, ready: bool = True) -> Self:
        """Desks that are ready while this card is the published one, or those that are not."""
        if card is None:
            return self.none() if ready else self
        if ready:
            return self.filter(enrolled=card)
        # As ranges of the index: it knows no "another than".
        return self.filter(Q(enrolled=None) | Q(enrolled__lt=card.pk) | Q(enrolled__gt=card.pk))

    def connected(self, connected: bool = True) -> Self:
        """Desks that are connected, or those that are not."""
        return self.filter(connected=connected)

    def in_order(self) -> Self:
        """In a stable order, with ``key``, by which a reader goes on behind a desk."""
        return self.annotate(key=F("pk")).order_by("key")

    def filled_by(self, fill: Event) -> Self:
        """Desks that a ``signal.filled`` reached: its own, or those who stood at its position.

        In the order in which they elected, which is unique, with that as ``key``.
        """
        if fill.user_id:
            return self.in_order().filter(public_id=fill.user_id)
        return (
            self.filter(
                Q(elections__closed=None) | Q(elections__closed__gt=fill.position),
                elections__card=fill.topic,
                elections__opened__lt=fill.position,
            )
            .annotate(key=F("elections__opened"))
            .order_by("key")
        )


class Desk(models.Model):
    """One user's desk. ``public_id`` is the ``userId`` of the API and the topic of its events.

    ``connected``, and ``enrolled``, the card of the last election that was not withdrawn, repeat
    what its connection and elections say. They change with those under the log's lock: so the few
    of a million desks that are not connected, or not ready, are found by an index.
    """

    public_id = models.CharField("userId", max_length=LONGEST_ID, default=new_user_id)
    user = models.OneToOneField("desks.User", models.PROTECT, related_name="desk")
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    connected = models.BooleanField(default=False)
    enrolled = models.ForeignKey(
        "desks.Card", models.PROTECT, null=True, db_index=False, related_name="enrolled"
    )

    objects = DeskQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(fields=["enrolled", "id"], name="desk_enrolled"),
            models.Index(fields=["id"], name="desk_unconnected", condition=Q(connected=False)),
        ]
        constraints = [
            models.UniqueConstraint(fields=["public_id"], name="desk_public_id"),
            models.CheckConstraint(
                condition=Q(connected=True) | Q(enrolled=None), name="desk_enrols_once_connected"
            ),
        ]

    def __str__(self) -> str:
        return self.public_id

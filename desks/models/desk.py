"""Desks, of which each customer owns exactly one, and their connections to venues."""

from typing import Self

from django.db import models
from django.db.models import F, FilteredRelation, Q

from desks.ids import MAX_ID_LENGTH, new_user_id
from desks.models.card import Card
from events.actors import Actor, ActorType
from events.http.name_rules import MAX_NAME_LENGTH
from events.models import Event

TRADE_ONLY = "trade-only"


class DeskQuerySet(models.QuerySet["Desk"]):
    def with_standing(self, card: Card | None, after: int = 0) -> Self:
        """Joins each desk with its election on ``card`` and with its connection.

        Adds the alias ``standing``, the desk's standing election on this card, and the alias
        ``linked``, its connection. Both are None if there is none. ``card`` is the published card,
        or None if no card is published.

        ``after`` is the id after which a page of desks starts. Desks up to it are not joined.
        Without this limit PostgreSQL would use a plan that reads the joined tables from the
        beginning for every page.
        """
        on_card = Q(elections__card=card.pk if card else "", elections__closed=None)
        return self.alias(
            standing=FilteredRelation(
                "elections", condition=on_card & Q(elections__desk__gt=after)
            ),
            linked=FilteredRelation("connection", condition=Q(connection__desk__gt=after)),
        )

    def ready(self, card: Card | None, ready: bool = True) -> Self:
        """Desks that are ready, or not ready, if ``card`` is the published card."""
        if card is None:
            return self.none() if ready else self
        if ready:
            return self.active().filter(enrolled=card)
        # Ranges can use the index; "not equal" cannot.
        return self.filter(Q(enrolled=None) | Q(enrolled__lt=card.pk) | Q(enrolled__gt=card.pk))

    def active(self) -> Self:
        """Desks whose owner is not deactivated."""
        return self.filter(deactivated=False)

    def connected(self, connected: bool = True) -> Self:
        """Desks that are connected, or not connected."""
        return self.filter(connected=connected)

    def changed_since(self, position: int) -> Self:
        """Desks whose record changed after this position of the log, deactivated ones included.

        They are ordered by ``key``, the position of the last change.
        """
        return self.annotate(key=F("changed")).filter(key__gt=position).order_by("key")

    def in_order(self) -> Self:
        """Orders by ``key``, a stable and unique annotation for pagination."""
        return self.annotate(key=F("pk")).order_by("key")

    def filled_by(self, fill: Event) -> Self:
        """The desks that a ``signal.filled`` event reached, ordered by ``key``.

        They are the event's own desk, or all desks whose election on the card was standing at the
        event's position. In the second case ``key`` is the position of the election.
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
    """A user's desk. ``public_id`` is the ``userId`` of the API and the topic of its events.

    ``connected`` and ``enrolled`` repeat facts of the connection and the elections; ``enrolled`` is
    the card of the last election that was not withdrawn. ``deactivated`` is true if staff
    deactivated the owner. These columns change under the log's lock. They let an index find the
    few desks out of a million that are not connected or not ready, so that a page of desks reads
    only the desks that it lists.

    ``changed`` is the position of the event that last changed the desk's record, and
    ``updated_at`` its time. An event changes one desk, so no two desks share a position.
    """

    public_id = models.CharField("userId", max_length=MAX_ID_LENGTH, default=new_user_id)
    user = models.OneToOneField("desks.User", models.PROTECT, related_name="desk")
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    changed = models.BigIntegerField(unique=True)
    connected = models.BooleanField(default=False)
    enrolled = models.ForeignKey(
        "desks.Card", models.PROTECT, null=True, db_index=False, related_name="enrolled"
    )
    deactivated = models.BooleanField(default=False)

    objects = DeskQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(fields=["id"], name="desk_active", condition=Q(deactivated=False)),
            models.Index(
                fields=["enrolled", "id"], name="desk_enrolled", condition=Q(deactivated=False)
            ),
            models.Index(
                fields=["id"],
                name="desk_unconnected",
                condition=Q(connected=False, deactivated=False),
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["public_id"], name="desk_public_id"),
            models.CheckConstraint(
                condition=Q(connected=True) | Q(enrolled=None), name="desk_enrols_once_connected"
            ),
            models.CheckConstraint(
                condition=Q(connected=False) | Q(deactivated=False),
                name="desk_is_disconnected_when_deactivated",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def actor(self) -> Actor:
        """The desk's owner as the actor of an event."""
        return Actor(ActorType.USER, self.public_id)


class Connection(models.Model):
    """A desk's venue. The owner confirmed that the access cannot withdraw funds.

    The service never asks for a venue's keys.
    """

    desk = models.OneToOneField("desks.Desk", models.PROTECT, primary_key=True)
    venue = models.CharField(max_length=MAX_NAME_LENGTH)
    connected_at = models.DateTimeField()

    access = TRADE_ONLY

    def __str__(self) -> str:
        return f"{self.desk} at {self.venue}"

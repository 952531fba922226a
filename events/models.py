"""The ordered log of all events, and the counter that orders it."""

from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db import models
from django.db.models import GeneratedField, Q, TextField
from django.db.models.functions import Coalesce

from events.actors import Actor, ActorType, is_own
from events.columns import EPOCH_BYTES, Member, new_epoch
from events.json_schema import JsonObject

# The computed columns of an event, the one that few events share first.
SEARCHED = ("code", "bot_id", "pair")
INITIAL_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def _found_in(*paths: str) -> GeneratedField:
    """A column that the database computes: the first of these members of ``content``."""
    members = [Member("content", path) for path in paths]
    expression = Coalesce(*members) if len(members) > 1 else members[0]
    return GeneratedField(expression=expression, output_field=TextField(), db_persist=True)


class Head(models.Model):
    """The log's counter and clock. It has one row, and the lock of that row orders all writers.

    ``at`` is the time of the last turn that wrote events. It never runs back, even if a server's
    clock does.
    ``halted`` is whether the log was found to have lost events, so that nobody may write.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    position = models.BigIntegerField(default=0)
    at = models.DateTimeField(default=INITIAL_TIME)
    epoch = models.CharField(max_length=2 * EPOCH_BYTES, default=new_epoch)
    halted = models.BooleanField(default=False, db_default=False)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="head_is_one_row")]

    def __str__(self) -> str:
        return f"{self.epoch} at {self.position}"


class Identity(NamedTuple):
    """What tells an event from one that another history of the log has at its position.

    The names are those of the columns. The first event that two histories do not share differs in
    its time.
    """

    position: int
    at: datetime
    kind: str
    actor_id: str | None
    topic: str | None
    signal_id: str | None


class EventQuerySet(models.QuerySet["Event"]):
    def newest(self, count: int) -> "EventQuerySet":
        """The newest of these, in no order: a part for ``union``, which has no limits on SQLite."""
        newest = self.order_by("-position").values("position")[:count]
        return Event.objects.order_by().filter(position__in=newest)


class Event(models.Model):
    """Something that happened. Written once by ``events.log`` and never changed.

    ``content`` is the JSON that every reader of the topic sees: ``{"signal": …, "data": …}``.
    ``platform_content`` is the version for the platform, or None if that is the same.
    ``actor_type`` is None if the caller was not authenticated.
    ``bot_id``, ``pair`` and ``code`` are what a desk's owner searches for. They come from
    ``content``; of a refused signal the pair is the one that was sent.
    """

    position = models.BigIntegerField(primary_key=True)
    kind = models.CharField(max_length=32)  # of ``events.kinds.Kind``
    at = models.DateTimeField()
    actor_type = models.CharField(max_length=8, choices=ActorType, null=True)  # noqa: DJ001
    actor_id = models.CharField(max_length=32, null=True)  # noqa: DJ001 - system or nobody
    topic = models.CharField(max_length=32, null=True)  # noqa: DJ001 - None: platform only
    signal_id = models.CharField(max_length=32, null=True)  # noqa: DJ001 - None: no signal
    content = models.JSONField()
    platform_content = models.JSONField(null=True)
    bot_id = _found_in("signal.botId", "data.botId", "data.owner")
    pair = _found_in("signal.pair", "data.pair", "data.sent.pair", "data.card.pair")
    code = _found_in("data.code")

    objects = EventQuerySet.as_manager()

    class Meta:
        ordering = ["position"]
        indexes = [
            models.Index(fields=["topic", "position"], name="event_topic"),
            models.Index(fields=["topic", "kind", "position"], name="event_topic_kind"),
            models.Index(fields=["kind", "position"], name="event_kind"),
            models.Index(
                fields=["actor_id", "position"],
                name="event_actor",
                condition=Q(actor_id__isnull=False),
            ),
            models.Index(
                fields=["signal_id"], name="event_signal", condition=Q(signal_id__isnull=False)
            ),
            *(
                models.Index(
                    fields=["topic", column, "position"],
                    name=f"event_topic_{column}",
                    condition=Q((f"{column}__isnull", False)),
                )
                for column in SEARCHED
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(position__gt=0), name="event_position_counts_from_1"
            ),
            models.CheckConstraint(
                condition=Q(actor_type=None, actor_id=None)
                | Q(actor_type=ActorType.SYSTEM, actor_id=None)
                | Q(actor_type__isnull=False, actor_id__isnull=False)
                & ~Q(actor_type=ActorType.SYSTEM),
                name="event_names_its_actor",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.id} {self.kind}"

    @property
    def id(self) -> str:
        """The public id, ``evt_`` and the position."""
        return f"evt_{self.position}"

    @property
    def identity(self) -> Identity:
        return Identity(
            self.position, self.at, self.kind, self.actor_id, self.topic, self.signal_id
        )

    @property
    def data(self) -> JsonObject:
        """The data that every reader of the topic sees."""
        data: JsonObject = self.content["data"]
        return data

    @property
    def user_id(self) -> str | None:
        """The userId of the desk that the event is addressed to, or None."""
        return self.topic if self.topic and self.topic.startswith("usr_") else None

    @property
    def actor(self) -> Actor | None:
        """Who caused the event, or None if the caller was not authenticated."""
        return Actor(self.actor_type, self.actor_id) if self.actor_type else None

    def actor_for(self, *, platform: bool) -> Actor | None:
        """Who caused the event. A desk sees only actors of its own."""
        actor = self.actor
        return actor if actor and (platform or is_own(actor, self.content)) else None

    def content_for(self, *, platform: bool) -> dict[str, Any]:
        """The content as the platform or as a desk sees it."""
        content: dict[str, Any] = self.content
        return (self.platform_content or content) if platform else content

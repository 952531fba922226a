"""The one ordered log of everything that happened, and the counter that orders it."""

import secrets
from typing import Any

from django.db import models
from django.db.models import Q

from events.kinds import Kind

EPOCH_BYTES = 4


def new_epoch() -> str:
    """A name for one unbroken history of the log: 8 hex digits."""
    return secrets.token_hex(EPOCH_BYTES)


class Head(models.Model):
    """The log's counter: one row, whose lock is the order of everything."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    position = models.BigIntegerField(default=0)
    epoch = models.CharField(max_length=2 * EPOCH_BYTES, default=new_epoch)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="head_is_one_row")]

    def __str__(self) -> str:
        return f"{self.epoch} at {self.position}"


class Event(models.Model):
    """Something that happened. Written once by ``events.log`` and never changed.

    ``content`` is the JSON that every reader of the topic is shown, ``{"signal": …, "data": …}``;
    ``platform_content`` is the platform's version of it, null where that says nothing more.
    """

    position = models.BigIntegerField(primary_key=True)
    kind = models.CharField(max_length=32, choices=Kind)
    at = models.DateTimeField()
    topic = models.CharField(max_length=32, null=True)  # noqa: DJ001 - null: the platform only
    signal_id = models.CharField(max_length=32, null=True)  # noqa: DJ001 - null: of no signal
    content = models.JSONField()
    platform_content = models.JSONField(null=True)

    class Meta:
        ordering = ["position"]
        indexes = [
            models.Index(fields=["topic", "position"], name="event_topic"),
            models.Index(fields=["topic", "kind", "position"], name="event_topic_kind"),
            models.Index(fields=["kind", "position"], name="event_kind"),
            models.Index(
                fields=["signal_id"], name="event_signal", condition=Q(signal_id__isnull=False)
            ),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(position__gt=0), name="event_position_counts_from_1")
        ]

    def __str__(self) -> str:
        return f"{self.id} {self.kind}"

    @property
    def id(self) -> str:
        """The public id, ``evt_`` and the position."""
        return f"evt_{self.position}"

    @property
    def user_id(self) -> str | None:
        """The desk that the event is addressed to, if it is addressed to one."""
        return self.topic if self.topic and self.topic.startswith("usr_") else None

    def seen_by(self, *, platform: bool) -> dict[str, Any]:
        """The content for one kind of reader."""
        content: dict[str, Any] = self.content
        return (self.platform_content or content) if platform else content

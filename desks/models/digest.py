"""Who gets a daily digest, and when the next one is due."""

from datetime import datetime
from typing import Self

from django.db import models
from django.db.models import Q


class DigestQuerySet(models.QuerySet["Digest"]):
    def due(self, now: datetime) -> Self:
        """The digests to write now, the oldest first."""
        return self.filter(due_at__lte=now).order_by("due_at", "pk")


class Digest(models.Model):
    """A user's daily digest at this hour of the user's time zone. Without a row there is none.

    The next one is written at ``due_at``. It tells what happened since ``since``, which is what the
    log has behind ``position``.
    """

    user = models.OneToOneField(
        "desks.User", models.PROTECT, primary_key=True, related_name="digest"
    )
    hour = models.PositiveSmallIntegerField()
    since = models.DateTimeField()
    position = models.BigIntegerField()
    due_at = models.DateTimeField()

    objects = DigestQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["due_at"], name="digest_due")]
        constraints = [
            models.CheckConstraint(condition=Q(hour__lte=23), name="digest_hour_is_of_a_day")
        ]

    def __str__(self) -> str:
        return f"{self.user_id} at {self.hour}"

"""The table of the daily digest, which is not used any more."""

from django.db import models
from django.db.models import Q


class Digest(models.Model):
    """When a user's next digest was due.

    The release before may serve on this database and uses the table, so the next delivery drops it.
    """

    user = models.OneToOneField(
        "desks.User", models.PROTECT, primary_key=True, related_name="digest"
    )
    hour = models.PositiveSmallIntegerField()
    since = models.DateTimeField()
    position = models.BigIntegerField()
    due_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["due_at"], name="digest_due")]
        constraints = [
            models.CheckConstraint(condition=Q(hour__lte=23), name="digest_hour_is_of_a_day")
        ]

    def __str__(self) -> str:
        return f"{self.user_id} at {self.hour}"

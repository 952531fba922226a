"""That a desk is connected: which venue, and that its access is trade-only. Never a key."""

from django.db import models

LONGEST_NAME = 80
TRADE_ONLY = "trade-only"


class Connection(models.Model):
    """A desk's venue, its owner having confirmed that the access cannot withdraw funds."""

    desk = models.OneToOneField("desks.Desk", models.PROTECT, primary_key=True)
    venue = models.CharField(max_length=LONGEST_NAME)
    connected_at = models.DateTimeField()

    access = TRADE_ONLY

    def __str__(self) -> str:
        return f"{self.desk} at {self.venue}"

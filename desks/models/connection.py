"""Connections of desks to venues. The service never asks for a venue's keys."""

from django.db import models

from events.http.names import MAX_NAME_LENGTH

TRADE_ONLY = "trade-only"


class Connection(models.Model):
    """A desk's venue. The owner confirmed that the access cannot withdraw funds."""

    desk = models.OneToOneField("desks.Desk", models.PROTECT, primary_key=True)
    venue = models.CharField(max_length=MAX_NAME_LENGTH)
    connected_at = models.DateTimeField()

    access = TRADE_ONLY

    def __str__(self) -> str:
        return f"{self.desk} at {self.venue}"

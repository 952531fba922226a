"""That a file of a desk's data is being made, by one web server's thread at a time."""

import secrets
from datetime import timedelta
from typing import Self

from django.db import models
from django.db.models.functions import Now

LEASE = timedelta(seconds=60)


class ExportLease(models.Model):
    """The lease of the process that makes a file of this desk's data.

    It ends by itself, by the database's clock, so that a process that was killed holds up its desk
    for a minute at most. A process that goes on renews it. No transaction stays open meanwhile.
    """

    desk = models.OneToOneField("desks.Desk", models.CASCADE, primary_key=True, related_name="+")
    holder = models.CharField(max_length=32)
    until = models.DateTimeField()

    objects = models.Manager["ExportLease"]()

    def __str__(self) -> str:
        return f"export of {self.desk_id}"

    @classmethod
    def take(cls, desk_id: int) -> Self | None:
        """Takes the lease of this desk. None if another process holds it."""
        lease = cls(desk_id=desk_id, holder=secrets.token_hex(16))
        ended = cls.objects.filter(desk_id=desk_id, until__lte=Now())
        if not ended.update(holder=lease.holder, until=Now() + LEASE):
            lease.until = Now() + LEASE  # the database's time
            cls.objects.bulk_create([lease], ignore_conflicts=True)
        return lease if lease._own().exists() else None

    def renew(self) -> bool:
        """Whether the lease was still this one's."""
        return bool(self._own().update(until=Now() + LEASE))

    def end(self) -> None:
        self._own().delete()

    def _own(self) -> models.QuerySet["ExportLease"]:
        return ExportLease.objects.filter(desk_id=self.desk_id, holder=self.holder)

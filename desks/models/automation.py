"""Automations: a user's bots, which push signed signals to the user's desk."""

from typing import Self

from django.db import models

from desks.ids import MAX_ID_LENGTH, new_bot_id
from events.http.names import MAX_NAME_LENGTH

MAX_BOTS = 50


class AutomationQuerySet(models.QuerySet["Automation"]):
    def not_removed(self) -> Self:
        """Automations that were not removed."""
        return self.filter(removed_at__isnull=True)


class Automation(models.Model):
    """A bot. The row of a removed bot stays, because events in the log refer to it."""

    id = models.CharField("botId", primary_key=True, max_length=MAX_ID_LENGTH, default=new_bot_id)
    desk = models.ForeignKey("desks.Desk", models.PROTECT, related_name="automations")
    name = models.CharField(max_length=MAX_NAME_LENGTH)
    created_at = models.DateTimeField()
    removed_at = models.DateTimeField(null=True)

    objects = AutomationQuerySet.as_manager()

    class Meta:
        ordering = ["created_at", "id"]

    def __str__(self) -> str:
        return self.name

    def as_event_data(self) -> dict[str, str]:
        """The data of ``automation.created`` and ``automation.removed``."""
        return {"botId": self.pk, "name": self.name}

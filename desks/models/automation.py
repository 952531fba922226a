"""A user's bot: it pushes signed signals for its owner's desk."""

from typing import Self

from django.db import models

from desks.ids import LONGEST_ID, new_bot_id
from desks.models.connection import LONGEST_NAME

MOST_BOTS = 50


class AutomationQuerySet(models.QuerySet["Automation"]):
    def kept(self) -> Self:
        """Automations that were not removed."""
        return self.filter(removed_at__isnull=True)


class Automation(models.Model):
    """A bot; a removed one stays as a row, since the log speaks of it."""

    id = models.CharField("botId", primary_key=True, max_length=LONGEST_ID, default=new_bot_id)
    desk = models.ForeignKey("desks.Desk", models.PROTECT, related_name="automations")
    name = models.CharField(max_length=LONGEST_NAME)
    created_at = models.DateTimeField()
    removed_at = models.DateTimeField(null=True)

    objects = AutomationQuerySet.as_manager()

    class Meta:
        ordering = ["created_at", "id"]

    def __str__(self) -> str:
        return self.name

"""Automations: a user's bots, which push signed signals to the user's desk."""

from typing import TYPE_CHECKING, Self

from django.db import models
from django.db.models import Q
from django.utils.functional import cached_property

from desks.event_data import AutomationData, ChangeData
from desks.expectation_rules import Expectation
from desks.ids import MAX_ID_LENGTH, new_bot_id
from events.http.name_rules import MAX_NAME_LENGTH

if TYPE_CHECKING:
    from desks.models.election import Election

MAX_BOTS = 50

# The columns of a bot from which nothing is expected.
NOT_EXPECTED = dict.fromkeys(
    ("every", "grace", "expected_since", "due_at", "silent_since", "silent_from")
)
IS_NOT_EXPECTED = Q(**{f"{name}__isnull": True for name in NOT_EXPECTED})


class AutomationQuerySet(models.QuerySet["Automation"]):
    def not_removed(self) -> Self:
        """Automations that were not removed."""
        return self.filter(removed_at__isnull=True)

    def silent(self) -> Self:
        """Expected bots that have not been heard for too long."""
        return self.filter(silent_from__isnull=False)


class Automation(models.Model):
    """A bot. The row of a removed bot stays, because events in the log refer to it.

    ``max_age``, ``every`` and ``grace`` are in seconds. A bot with a ``grace`` is expected: every
    so often, or on every trading day if ``every`` is None. ``expected_since`` is when its owner
    said so. ``due_at`` is when to look whether it is late; ``desks.expectations`` explains it.
    A late bot is silent: it was last heard at ``silent_since``, and its ``automation.quiet`` is at
    the position ``silent_from``.
    """

    id = models.CharField("botId", primary_key=True, max_length=MAX_ID_LENGTH, default=new_bot_id)
    desk = models.ForeignKey("desks.Desk", models.PROTECT, related_name="automations")
    name = models.CharField(max_length=MAX_NAME_LENGTH)
    created_at = models.DateTimeField()
    removed_at = models.DateTimeField(null=True)
    max_age = models.PositiveIntegerField(null=True)
    every = models.PositiveIntegerField(null=True)
    grace = models.PositiveIntegerField(null=True)
    expected_since = models.DateTimeField(null=True)
    due_at = models.DateTimeField(null=True)
    silent_since = models.DateTimeField(null=True)
    silent_from = models.BigIntegerField(null=True)

    objects = AutomationQuerySet.as_manager()

    class Meta:
        ordering = ["created_at", "id"]
        verbose_name = "bot"  # in the control area, as on the pages
        indexes = [
            # A desk's removed bots are without number, and some reads are under the log's lock.
            models.Index(fields=["desk"], name="bot_of_desk", condition=Q(removed_at__isnull=True)),
            models.Index(fields=["due_at"], name="bot_due", condition=Q(due_at__isnull=False)),
            models.Index(
                fields=["silent_from"], name="bot_silent", condition=Q(silent_from__isnull=False)
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=IS_NOT_EXPECTED
                | Q(grace__isnull=False, expected_since__isnull=False)
                & (
                    Q(due_at__isnull=False, silent_since=None, silent_from=None)
                    | Q(due_at=None, silent_since__isnull=False, silent_from__isnull=False)
                ),
                name="bot_is_due_or_silent_if_it_is_expected",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def expectation(self) -> Expectation | None:
        """How often the bot is expected to send; None if it is not."""
        return None if self.grace is None else Expectation(self.every, self.grace)

    @cached_property
    def election(self) -> "Election | None":
        """The bot's standing election, as it was when it was first asked for."""
        return self.elections.standing().first()

    def as_event_data(self) -> AutomationData:
        """The data of ``automation.created`` and ``automation.removed``."""
        return {"botId": self.pk, "name": self.name}

    def as_change_data(self) -> ChangeData:
        """The data of ``automation.changed``: what is expected of the bot's signals."""
        expectation = self.expectation
        return {
            **self.as_event_data(),
            "expected": expectation.to_dict() if expectation else None,
            "maxAge": self.max_age,
        }

"""The latest attempts to deliver to a subscription. They are for its owner, and not in the log."""

from collections.abc import Collection
from typing import Self

from django.db import models, transaction
from django.db.models import F, Window
from django.db.models.functions import RowNumber

from events.times import to_rfc3339
from signals.webhooks.models import Subscription
from tokens.models.sealed import NO_TEXT, Sealed

# What is kept of a subscription's attempts.
MAX_ATTEMPTS, MAX_ANSWERS, MAX_ANSWER_BYTES = 50, 10, 1024
MAX_ERROR_LENGTH = 32


class DeliveryAttemptQuerySet(models.QuerySet["DeliveryAttempt"]):
    def trim(self, subscription_ids: Collection[int]) -> None:
        """Drops what is beyond the bounds of these subscriptions.

        It waits for nobody: what another one is trimming is left to them.
        """
        of_these = self.filter(subscription__in=subscription_ids)
        with transaction.atomic():
            of_these._beyond(MAX_ATTEMPTS).delete()
            answers = of_these.exclude(key_id=NO_TEXT)._beyond(MAX_ANSWERS)
            answers.update(ciphertext=b"", key_id=NO_TEXT)

    def _beyond(self, count: int) -> Self:
        """All but the latest ``count`` of each subscription."""
        newest = Window(RowNumber(), partition_by=F("subscription"), order_by=F("id").desc())
        ranked = self.order_by().annotate(rank=newest).filter(rank__gt=count)
        every = type(self)(self.model, using=self.db)
        unlocked = every.filter(pk__in=ranked.values("pk")).select_for_update(skip_locked=True)
        return every.filter(pk__in=unlocked.values("pk"))


class DeliveryAttempt(Sealed):
    """One attempt to deliver: when, how long it took, and what the endpoint answered.

    The sealed text is the beginning of the answer to a failed attempt. An endpoint may repeat in it
    the path that it was called at. ``position`` is the event's, or None for a test. ``status`` is
    the HTTP status, or None without an answer: then ``error`` says what went wrong. Both are set if
    a test was answered without the proof that the endpoint knows the secret.
    """

    subscription = models.ForeignKey(
        Subscription, models.CASCADE, related_name="attempts", db_index=False
    )
    position = models.BigIntegerField(null=True)
    at = models.DateTimeField()
    milliseconds = models.PositiveIntegerField()
    status = models.PositiveSmallIntegerField(null=True)
    error = models.CharField(max_length=MAX_ERROR_LENGTH, default="")

    objects = DeliveryAttemptQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["subscription", "id"], name="attempt_subscription")]

    def __str__(self) -> str:
        return f"{self.subscription_id} at {self.at}"

    @property
    def associated_data(self) -> str:
        return f"{self.subscription.public_id}:{to_rfc3339(self.at)}"

    @property
    def is_success(self) -> bool:
        return not self.error and self.status is not None and 200 <= self.status < 300

    @property
    def answer(self) -> str:
        """The beginning of the answer; empty if none is kept. Raises ``keys.KeyLostError``."""
        return self.decrypt() if self.key_id else ""

    def keep_answer(self, body: bytes) -> None:
        """Seals the beginning of an answer. Does not save the row."""
        text = body[:MAX_ANSWER_BYTES].decode(errors="replace").replace("\0", "")
        if text:
            self.encrypt(text)

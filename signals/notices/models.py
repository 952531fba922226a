"""What the followers of the log, and the reader of the bot at Telegram, remember."""

from django.db import models


class KnownConcern(models.Model):
    """A concern of the service of which staff were notified, and when it was seen last.

    ``key`` is a digest of what it is about: the same while its numbers change.
    """

    key = models.UUIDField(primary_key=True)
    seen_at = models.DateTimeField()

    class Meta:
        app_label = "signals"

    def __str__(self) -> str:
        return f"{self.key}"


class TelegramReader(models.Model):
    """The one process that reads what the bot at Telegram is sent, and the number of the next.

    There is one row. What was read and up to where is saved at once.
    """

    holder = models.CharField(max_length=8, blank=True, default="")
    until = models.DateTimeField(null=True)
    next_update = models.BigIntegerField(default=0)

    class Meta:
        app_label = "signals"

    def __str__(self) -> str:
        return f"{self.holder} until {self.until}"

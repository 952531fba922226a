"""manage.py new_epoch: invalidates all cursors of the log, after a restore that lost events."""

from typing import Any

from events.columns import new_epoch
from events.feed.head import read_head
from events.management.log_command import LogCommand
from events.models import Head


class Command(LogCommand):
    help = (
        "Starts a new epoch of the log. Run it after a restore that lost events, before anything "
        "is written. Earlier cursors may point to events that no longer exist: they are refused "
        "with cursor_lost, and their readers start again. Nothing else changes."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        Head.objects.update(epoch=new_epoch())
        head = read_head()
        self.stdout.write(
            f"Epoch {head.epoch} starts at position {head.position:,}. "
            "Earlier cursors are refused with cursor_lost."
        )

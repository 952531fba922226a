"""manage.py new_epoch: invalidates the readers' cursors, after a restore that lost events."""

from typing import Any

from events.management.log_command import LogCommand
from signals.epochs import begin_epoch


class Command(LogCommand):
    help = (
        "Starts a new epoch of the log. Run it after a restore that lost events, before anything "
        "is written. Cursors that readers hold may point to events that no longer exist: they are "
        "refused with cursor_lost, and their readers start again. Webhooks and notices go on at "
        "their own position, or at the end of the log if that is beyond it. Owners of webhooks "
        "get one notice that events may repeat or be missing; of the platform's, staff get it. "
        "Nothing else changes. It is one transaction, and running it again does no harm."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        begun = begin_epoch()
        self.stdout.write(
            f"Epoch {begun.epoch} starts at position {begun.position:,}. "
            "Earlier cursors are refused with cursor_lost.\n"
            f"Webhooks that go on at their own position: {begun.webhooks:,}; "
            f"of these from the end of the log: {begun.beyond:,}. Their owners are told."
        )

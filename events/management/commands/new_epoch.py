"""manage.py new_epoch: after a restore that lost events, no cursor from before is honoured."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from events.models import Head, new_epoch


class Command(BaseCommand):
    help = (
        "Begins a new epoch of the log. Run it after a restore that lost events, before anything "
        "is written: a cursor from before, which may stand on what is no longer there, is refused "
        "with cursor_lost from then on, and its reader begins anew. Nothing else changes."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        if not Head.objects.update(epoch=new_epoch()):
            raise CommandError("This database has no log yet. Run migrate first.")
        head = Head.objects.get()
        self.stdout.write(
            f"Epoch {head.epoch} begins at position {head.position:,}. "
            "Cursors from before are refused with cursor_lost."
        )

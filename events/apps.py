from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class EventsConfig(AppConfig):
    name = "events"
    verbose_name = "Log"

    def ready(self) -> None:
        post_migrate.connect(_put_counter_in_place, sender=self)


def _put_counter_in_place(sender: EventsConfig, using: str, **kwargs: Any) -> None:
    """Gives an empty log its counter; an emptied one starts a new epoch."""
    sender.get_model("Head")._default_manager.using(using).get_or_create(id=1)

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class EventsConfig(AppConfig):
    name = "events"
    verbose_name = "Log"

    def ready(self) -> None:
        post_migrate.connect(_create_head, sender=self)


def _create_head(sender: EventsConfig, using: str, **kwargs: object) -> None:
    """Creates the counter row if it is missing. A new row starts a new epoch."""
    sender.get_model("Head")._default_manager.using(using).get_or_create(id=1)

from django.apps import AppConfig
from django.conf import settings
from django.db.models.signals import post_migrate


class EventsConfig(AppConfig):
    name = "events"
    verbose_name = "Log"

    def ready(self) -> None:
        post_migrate.connect(_create_head, sender=self)
        if settings.TELEMETRY:
            from events import telemetry  # noqa: PLC0415 - imports OpenTelemetry

            telemetry.start()


def _create_head(sender: EventsConfig, using: str, **kwargs: object) -> None:
    """Creates the counter row if it is missing. A new row starts a new epoch."""
    sender.get_model("Head")._default_manager.using(using).get_or_create(id=1)

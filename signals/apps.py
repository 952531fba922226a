from importlib import import_module

from django.apps import AppConfig


class SignalsConfig(AppConfig):
    name = "signals"
    verbose_name = "Signals and webhooks"

    def ready(self) -> None:
        import_module("signals.notices.chats.actions")  # connects its receiver
        import_module("signals.webhooks.actions")

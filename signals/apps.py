from importlib import import_module

from django.apps import AppConfig


class SignalsConfig(AppConfig):
    name = "signals"
    verbose_name = "Signals"

    def ready(self) -> None:
        import_module("signals.chats.ending")  # connects its receiver
        import_module("signals.subscriptions.ending")

from django.apps import AppConfig
from django.urls import register_converter

from desks.ids import SignalIdConverter, SubscriptionIdConverter, UserIdConverter


class DesksConfig(AppConfig):
    name = "desks"
    verbose_name = "Customers"

    def ready(self) -> None:
        register_converter(UserIdConverter, "userId")
        register_converter(SignalIdConverter, "signalId")
        register_converter(SubscriptionIdConverter, "subscriptionId")

from django.apps import AppConfig
from django.urls import register_converter
from django.urls.converters import StringConverter

from desks.ids import SIGNAL, SUBSCRIPTION, USER, id_form


class UserIdConverter(StringConverter):
    """Matches a ``userId`` in a path."""

    regex = id_form(USER)


class SignalIdConverter(StringConverter):
    """Matches the id of a signal in a path."""

    regex = id_form(SIGNAL)


class SubscriptionIdConverter(StringConverter):
    """Matches the id of a webhook subscription in a path."""

    regex = id_form(SUBSCRIPTION)


class DesksConfig(AppConfig):
    name = "desks"
    verbose_name = "Customers"

    def ready(self) -> None:
        register_converter(UserIdConverter, "userId")
        register_converter(SignalIdConverter, "signalId")
        register_converter(SubscriptionIdConverter, "subscriptionId")

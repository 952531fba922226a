from django.apps import AppConfig
from django.urls import register_converter
from django.urls.converters import StringConverter

from desks.ids import SIGNAL, SUBSCRIPTION, USER, id_form

# The ids that a path can have, each with its converter's name.
IN_PATHS = {"userId": USER, "signalId": SIGNAL, "subscriptionId": SUBSCRIPTION}


class DesksConfig(AppConfig):
    name = "desks"
    verbose_name = "Users and desks"

    def ready(self) -> None:
        for name, prefix in IN_PATHS.items():
            converter = type(f"{name}Converter", (StringConverter,), {"regex": id_form(prefix)})
            register_converter(converter, name)

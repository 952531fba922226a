from django.apps import AppConfig
from django.urls import register_converter

from desks.ids import UserIdConverter


class DesksConfig(AppConfig):
    name = "desks"
    verbose_name = "Customers"

    def ready(self) -> None:
        register_converter(UserIdConverter, "userId")

from django.apps import AppConfig


class DesksConfig(AppConfig):
    name = "desks"
    verbose_name = "Customers"

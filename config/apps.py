from importlib import import_module

from django.contrib.admin import apps


class ControlAreaConfig(apps.SimpleAdminConfig):
    """Django's admin with the control area as its site.

    It imports the pages of our own apps. Django would also find those of libraries.
    """

    default = False  # the app "config" has its own configuration
    default_site = "config.control_site.ControlAreaSite"

    def ready(self) -> None:
        super().ready()
        for app in ("desks", "signals", "tokens"):
            import_module(f"{app}.admin")

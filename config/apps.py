from django.contrib.admin.apps import SimpleAdminConfig
from django.utils.module_loading import autodiscover_modules


class ControlAreaConfig(SimpleAdminConfig):
    """The control area: the stock admin with our site; its pages are each app's ``control.py``."""

    default_site = "config.control.ControlSite"

    def ready(self) -> None:
        super().ready()
        autodiscover_modules("control")

from django.contrib.admin import apps


class ControlAreaConfig(apps.AdminConfig):
    """Django's admin with the control area as its site. Django finds each app's ``admin.py``."""

    default = False  # the app "config" has its own configuration
    default_site = "config.control_site.ControlAreaSite"

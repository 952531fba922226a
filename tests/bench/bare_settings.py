"""The settings of the baseline: the service's database and server, with bare views."""

from tests.served_settings import *  # noqa: F403

INSTALLED_APPS = [
    "desks",
    "events",
    "rest_framework",
    "django.contrib.auth",
    "django.contrib.contenttypes",
]
MIDDLEWARE = []
ROOT_URLCONF = "tests.bench.bare"
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": [],
    "UNAUTHENTICATED_USER": None,
}

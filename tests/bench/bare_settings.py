"""What the service is measured against: its database and its server, and nothing else of it."""

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

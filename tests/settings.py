"""The product's settings, as the suite runs them: on SQLite, or where TEST_DATABASE_URL says.

Limits are off but where a test turns one on; hashing is quick; everything else is as served.
"""

import os
import secrets
from pathlib import Path

from tests import shared_store

os.environ.update(
    {
        "ENV_FILE": os.devnull,  # what a developer keeps in .env is not what is tested
        "SECRET_KEY": secrets.token_hex(32),
        "TOKEN_KEYS": os.environ.get("TOKEN_KEYS") or secrets.token_hex(32),
        "SECRET_KEYS": os.environ.get("SECRET_KEYS") or secrets.token_hex(32),
        "DEBUG": "off",
        "BASE_URL": "http://testserver",
        "ALLOWED_HOSTS": "testserver,localhost,127.0.0.1",
        "REQUIRE_HTTPS": "off",
        "REQUIRE_STAFF_MFA": "off",
        "DATABASE_URL": os.environ.get("TEST_DATABASE_URL") or "sqlite:///unused.sqlite3",
        "LIMITS_URL": shared_store.URL,
        "EMAIL_URL": "memorymail://",
    }
)

from config.settings import *  # noqa: F403
from config.settings import DATABASES, LIMITS

LIMITS.update(dict.fromkeys(LIMITS, "off"))

if "sqlite" in DATABASES["default"]["ENGINE"]:
    # A file, not memory: the tests of concurrency open it from several processes.
    folder = Path("/dev/shm" if Path("/dev/shm").is_dir() else "/tmp")  # noqa: S108
    DATABASES["default"]["TEST"] = {"NAME": folder / f"signals-test-{os.getpid()}.sqlite3"}
else:
    DATABASES["default"]["OPTIONS"].pop("pool")  # a pool would outlive the test database

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
# What collectstatic left in the checkout is not the tests': it would be searched by each client.
STATIC_ROOT = Path(__file__).parent / "nothing-collected"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}

"""The settings of the test suite: on SQLite, or on the database of TEST_DATABASE_URL.

Limits are off unless a test turns one on, password hashing is fast, and waits may take long
(``tests.patience``). Everything else is as in production.
"""

import os
import secrets
from pathlib import Path

from tests import patience, shared_store

os.environ.update(
    {
        "ENV_FILE": os.devnull,  # ignore a developer's .env
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
from config.settings import DATABASES, INSTALLED_APPS, LIMITS

# Not that of the records that refusals are left out: they are left out in tests of that alone.
LIMITS.update(dict.fromkeys(LIMITS.keys() - {"refusals_suppressed"}, "off"))
NOTICE_RATE = "off"
INSTALLED_APPS.append(patience.APP)

if "sqlite" in DATABASES["default"]["ENGINE"]:
    # A file, not memory: several processes open it in the concurrency tests.
    folder = Path("/dev/shm" if Path("/dev/shm").is_dir() else "/tmp")  # noqa: S108
    DATABASES["default"]["TEST"] = {"NAME": folder / f"signals-test-{os.getpid()}.sqlite3"}
else:
    DATABASES["default"]["OPTIONS"].pop("pool")  # a pool would outlive the test database

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
CACHES = {"default": {"BACKEND": "tests.memory_cache.JSONMemoryCache"}}
patience.lengthen(DATABASES["default"], CACHES["default"])
# An empty folder: with collected files each test client would search them.
STATIC_ROOT = Path(__file__).parent / "empty-static-root"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}

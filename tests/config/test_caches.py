"""The cache stores plain JSON: a planted value is never executed and never an error."""

import base64
import os
import pickle
import time
from pathlib import Path
from unittest.mock import patch

import pytest
import redis
from django.core.cache import DEFAULT_CACHE_ALIAS, cache, caches
from django.core.management import call_command
from django.db import connection
from django.test import Client

from config import environment
from config import settings as served
from desks.models import User
from tests import pages, staff
from tests.config.accounts.test_sign_in import KNOWN, TOO_MANY, WRONG, sign_in
from tests.factories import PASSWORD
from tests.shared_store import URL

pytestmark = pytest.mark.django_db

READYZ = "ready"
JSON_VALUES = [True, None, 7, 1.5, "y", [1.5, 2.5], {"a": [None]}, "ä\x00"]
NOT_JSON = [b"", b"nothing of ours", b"\x80\x05N.", b"\xff\xfe\xfa", b"[" * 100_000, b"1" * 5_000]


class Opened:
    """Creates a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self._file = str(file)

    def __reduce__(self):
        return os.mkdir, (self._file,)


class Table:
    """The database cache, and a way to write to its table directly."""

    def __init__(self, settings) -> None:
        settings.CACHES = served.CACHES
        call_command("createcachetable", verbosity=0)

    def plant(self, key: str, kept: bytes) -> None:
        """Writes bytes as Django's back end does (base64), and text as it is."""
        text = kept.decode("ascii") if kept.isascii() else base64.b64encode(kept).decode()
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM cache WHERE cache_key = %s", [cache.make_key(key)])
            cursor.execute(
                "INSERT INTO cache (cache_key, value, expires) VALUES (%s, %s, %s)",
                [cache.make_key(key), text, "2999-01-01 00:00:00+00:00"],
            )


class Redis:
    """The same in Redis."""

    def __init__(self, settings) -> None:
        with patch.dict(os.environ, CACHE_URL=URL.replace("redis", "rediscache", 1)):
            settings.CACHES = {"default": environment.cache()}
        self.client = redis.Redis.from_url(URL)

    def plant(self, key: str, kept: bytes) -> None:
        self.client.set(cache.make_key(key), kept)


BACK_ENDS = [
    pytest.param(Table, id="table"),
    pytest.param(
        Redis,
        id="redis",
        marks=pytest.mark.skipif(not URL, reason="TEST_REDIS_URL is not set"),
    ),
]


@pytest.fixture(params=BACK_ENDS)
def kept(request, settings):
    found = request.param(settings)
    cache.clear()
    yield found
    cache.clear()


@pytest.fixture
def bomb(tmp_path):
    """Pickled bytes that create a folder when unpickled, and a check of whether they did."""
    folder = tmp_path / "it-ran"
    return pickle.dumps(Opened(folder)), folder.exists


def test_the_pickle_that_these_tests_plant_does_run_where_it_is_unpickled(bomb):
    planted, ran = bomb
    pickle.loads(planted)  # noqa: S301 - our own
    assert ran()


def test_what_is_planted_for_the_readiness_page_is_not_run(kept, bomb, client):
    planted, ran = bomb
    kept.plant(READYZ, planted)
    assert (client.get("/readyz").json()["cache"], ran()) == ("ok", False)


def test_what_is_planted_for_every_key_that_signing_in_reads_is_not_run(kept, bomb, monkeypatch):
    staff.verified(User.objects.create_user(KNOWN, PASSWORD))
    planted, ran = bomb
    for key in keys_read(monkeypatch, lambda: sign_in(Client(), password="wrong")):
        kept.plant(key, planted)
    assert sign_in(Client()).status_code == 302
    assert not ran()


def keys_read(monkeypatch, action) -> set[str]:
    found, real = set(), type(caches[DEFAULT_CACHE_ALIAS]).get

    def get(self, key, *args, **options):
        found.add(key)
        return real(self, key, *args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(type(caches[DEFAULT_CACHE_ALIAS]), "get", get)
        action()
    assert found
    return found


def test_what_is_not_json_is_read_as_nothing(kept):
    for junk in NOT_JSON:
        kept.plant("key", junk)
        assert cache.get("key", "a miss") == "a miss"
        assert cache.get_many(["key", "other"]) == {}
        cache.set("key", 1)
        assert cache.get("key") == 1


def test_what_is_json_is_kept(kept):
    for value in JSON_VALUES:
        cache.set("key", value)
        assert cache.get("key", "a miss") == value
        assert cache.get_many(["key", "other"]) == {"key": value}


def test_what_json_cannot_hold_is_not_kept(kept):
    for value in (b"bytes", {1, 2}, object()):
        with pytest.raises(TypeError):
            cache.set("key", value)


def test_a_value_is_added_once_and_anew_when_it_has_expired(kept):
    assert cache.add("key", 1, 60) is True
    assert cache.add("key", 2, 60) is False
    assert cache.get("key") == 1
    cache.set("key", 1, 0)
    time.sleep(0.01)  # Redis keeps it for a millisecond
    assert cache.get("key") is None
    assert cache.add("key", 3, 60) is True
    assert cache.get("key") == 3
    assert cache.delete("key") is True
    assert cache.delete("key") is False


def test_a_value_without_an_end_stays(kept):
    cache.set("key", 1, None)
    assert cache.get("key") == 1


def test_wrong_passwords_are_counted_in_each_back_end(kept):
    staff.verified(User.objects.create_user(KNOWN, PASSWORD))
    said = [pages.errors(sign_in(Client(), password="wrong")) for _ in range(6)]
    assert said == [[WRONG]] * 5 + [[TOO_MANY]]

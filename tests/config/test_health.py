"""The health checks report whether the process is alive and can serve."""

import pytest
from django.core.cache.backends.redis import RedisCache
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from config.monitoring import health

pytestmark = pytest.mark.django_db

NOBODY = "redis://127.0.0.1:1/0"


@pytest.fixture(autouse=True)
def nothing_remembered():
    health._are_applied.cache_clear()
    yield
    health._are_applied.cache_clear()


def ready(client):
    answer = client.get("/readyz")
    said = answer.json()
    assert (answer.status_code == 200) == said.pop("ready")
    return answer.status_code, said


def test_alive_asks_nothing_of_anybody(client, django_assert_num_queries):
    with django_assert_num_queries(0):
        assert client.get("/healthz").json() == {"alive": True}


def test_ready_names_each_part(client, settings):
    status, parts = ready(client)
    limits = health.OK if settings.LIMITS_URL else health.BY_ITSELF
    assert (status, parts) == (
        200,
        {"database": "ok", "migrations": "ok", "limits": limits, "cache": "ok"},
    )


def test_a_database_that_is_behind_the_code_is_not_ready_until_it_is_migrated(client):
    last = MigrationRecorder.Migration.objects.filter(app="signals").latest("id")
    last.delete()
    status, parts = ready(client)
    assert (status, parts["migrations"]) == (503, "behind")
    MigrationRecorder(connection).record_applied(last.app, last.name)
    assert ready(client)[0] == 200


def test_a_database_without_the_log_is_not_ready(client):
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM events_head")
    status, parts = ready(client)
    assert (status, parts["database"]) == (503, "away")


def test_without_the_store_of_the_limits_it_goes_on_and_says_so(client, settings):
    settings.LIMITS_URL = NOBODY
    assert ready(client) == (
        200,
        {"database": "ok", "migrations": "ok", "limits": "away", "cache": "ok"},
    )


def test_without_the_cache_it_goes_on_and_says_so(client, monkeypatch):
    monkeypatch.setattr(health, "cache", RedisCache(NOBODY, {}))
    status, parts = ready(client)
    assert (status, parts["cache"]) == (200, "away")

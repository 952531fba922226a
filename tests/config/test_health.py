"""The health checks report whether the process is alive and can serve."""

import pytest
from django.core.cache.backends.redis import RedisCache
from django.db import ProgrammingError, connection
from django.db.migrations.recorder import MigrationRecorder

from config import monitoring
from config.problems import to_refusal
from events.models import Head
from tests.config.test_unavailable import away

pytestmark = pytest.mark.django_db

NOBODY = "redis://127.0.0.1:1/0"


@pytest.fixture(autouse=True)
def just_started(monkeypatch):
    """A process that has read nothing yet, and reads again at once."""
    monkeypatch.setattr(monitoring, "READ_AGAIN_AFTER", 0.0)
    monkeypatch.setattr(monitoring, "SCHEMA", monitoring.SchemaState())


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
    limits = monitoring.OK if settings.LIMITS_URL else monitoring.BY_ITSELF
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


def rename(column, other):
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE desks_card RENAME COLUMN {column} TO {other}")


def test_a_database_that_lacks_a_column_is_not_ready_until_it_has_it(client, caplog):
    """As one whose migrations have the same names and another content."""
    rename("name", "title")
    assert ready(client)[1]["migrations"] == "behind"
    assert "The column name of desks_card is missing." in caplog.text
    rename("title", "name")
    assert ready(client)[0] == 200


def test_what_fits_is_read_once(client, django_assert_max_num_queries):
    assert ready(client)[0] == 200
    with django_assert_max_num_queries(2):
        assert ready(client)[0] == 200
    rename("name", "title")
    assert ready(client)[0] == 200


def test_after_a_statement_that_failed_it_is_read_again(client):
    assert ready(client)[0] == 200
    rename("name", "title")
    to_refusal(ProgrammingError("column desks_card.name does not exist"))
    assert ready(client)[1]["migrations"] == "behind"


def test_after_the_database_was_away_it_is_read_again(client):
    assert ready(client)[0] == 200
    rename("name", "title")
    with away():
        assert ready(client)[1]["database"] == "away"
    assert ready(client)[1]["migrations"] == "behind"


def test_however_often_a_stranger_asks_it_is_read_once_in_a_while(
    client, monkeypatch, django_assert_max_num_queries
):
    monkeypatch.setattr(monitoring, "READ_AGAIN_AFTER", 3600.0)
    monkeypatch.setattr(monitoring, "SCHEMA", monitoring.SchemaState())
    rename("name", "title")
    assert ready(client)[1]["migrations"] == "behind"
    monitoring.SCHEMA.doubt()
    with django_assert_max_num_queries(2):
        assert ready(client)[1]["migrations"] == "behind"


def test_while_it_cannot_be_read_what_was_read_counts(client):
    assert ready(client)[0] == 200
    monitoring.SCHEMA.doubt()
    with away(of="django_migrations"):
        assert ready(client)[0] == 200
    rename("name", "title")
    assert ready(client)[1]["migrations"] == "behind"


def test_what_was_never_read_does_not_fit(client):
    with away(of="django_migrations"):
        assert ready(client)[1]["migrations"] == "behind"
    assert ready(client)[0] == 200


def test_a_database_that_a_newer_release_has_migrated_is_ready(client):
    MigrationRecorder(connection).record_applied("desks", "9999_of_a_newer_release")
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE newer (id integer)")
        cursor.execute("ALTER TABLE desks_card ADD COLUMN newer integer NULL")
        cursor.execute("ALTER TABLE desks_desk ADD COLUMN newer integer DEFAULT 1 NOT NULL")
        cursor.execute("CREATE INDEX newer_index ON desks_desk (newer)")
    assert ready(client)[0] == 200


def test_a_database_without_the_log_is_not_ready(client):
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM events_head")
    status, parts = ready(client)
    assert (status, parts["database"]) == (503, "away")


def test_a_halted_log_is_not_ready(client, settings):
    settings.METRICS_TOKEN = "t" * 32
    Head.objects.update(halted=True)
    status, parts = ready(client)
    assert (status, parts["database"], parts["migrations"]) == (503, "halted", "ok")
    metrics = client.get("/metrics", headers={"Authorization": f"Bearer {settings.METRICS_TOKEN}"})
    assert b"\nsignals_log_halted 1.0\n" in metrics.content
    assert b'\nsignals_part_up{part="database"} 0.0\n' in metrics.content


def test_without_the_store_of_the_limits_it_goes_on_and_says_so(client, settings):
    settings.LIMITS_URL = NOBODY
    assert ready(client) == (
        200,
        {"database": "ok", "migrations": "ok", "limits": "away", "cache": "ok"},
    )


def test_without_the_cache_it_goes_on_and_says_so(client, monkeypatch):
    monkeypatch.setattr(monitoring, "cache", RedisCache(NOBODY, {}))
    status, parts = ready(client)
    assert (status, parts["cache"]) == (200, "away")

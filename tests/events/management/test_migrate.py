"""Migrations run without timeouts, and only on a database that is what its migrations say."""

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.db.models.signals import post_migrate

from events.statements import TIMEOUTS, without_timeouts

NOT_POSTGRESQL = connection.vendor != "postgresql"
ALL_OFF = ["0"] * len(TIMEOUTS)

pytestmark = pytest.mark.django_db

has_timeouts = pytest.mark.skipif(NOT_POSTGRESQL, reason="Only PostgreSQL has these timeouts.")


def timeouts():
    values = []
    with connection.cursor() as cursor:
        for name in TIMEOUTS:
            cursor.execute(f"SHOW {name}")
            values += cursor.fetchone()
    return values


@has_timeouts
def test_migrations_run_without_timeouts():
    during = []

    def record(**kwargs):  # a receiver of post_migrate
        during.append(timeouts())

    post_migrate.connect(record)
    try:
        call_command("migrate", verbosity=0)
    finally:
        post_migrate.disconnect(record)
    assert during
    assert all(values == ALL_OFF for values in during)


@has_timeouts
def test_the_timeouts_are_restored_when_the_block_raises():
    before = timeouts()
    with pytest.raises(CommandError), without_timeouts(connection):
        raise CommandError
    assert (timeouts(), connection.connection.is_patient) == (before, False)


def run(statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)


def applied(app):
    return set(MigrationRecorder.Migration.objects.filter(app=app).values_list("name", flat=True))


def test_a_database_that_lacks_what_its_migrations_say_is_refused_before_any_change():
    """As one whose first migration had the same name and another content."""
    MigrationRecorder(connection).record_unapplied("sessions", "0001_initial")
    run("DROP TABLE django_session")
    run("ALTER TABLE events_head RENAME COLUMN at TO was_at")
    with pytest.raises(CommandError) as refused:
        call_command("migrate", verbosity=0)
    first, *differences = str(refused.value).splitlines()
    assert first.startswith("Nothing was changed, because the database is not what its migrations")
    assert differences == [
        "The column at of events_head is missing.",
        "The column was_at of events_head is in no migration.",
    ]
    assert applied("sessions") == set()


def test_what_the_migrations_have_made_is_compared_afterwards():
    def lose_an_index(**kwargs):  # a receiver of post_migrate
        run("DROP INDEX IF EXISTS event_kind")

    post_migrate.connect(lose_an_index)
    try:
        with pytest.raises(CommandError) as found:
            call_command("migrate", verbosity=0)
    finally:
        post_migrate.disconnect(lose_an_index)
    assert str(found.value).splitlines() == [
        "The database is not what its migrations describe.",
        "The index event_kind of events_event is missing.",
    ]

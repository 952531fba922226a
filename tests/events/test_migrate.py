"""Migrations run without timeouts; everything else runs with the timeouts of a request."""

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.models.signals import post_migrate

from events.management.commands.migrate import TIMEOUTS

NOT_POSTGRESQL = connection.vendor != "postgresql"
ALL_OFF = ["0"] * len(TIMEOUTS)

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(NOT_POSTGRESQL, reason="Only PostgreSQL has these timeouts."),
]


def timeouts():
    values = []
    with connection.cursor() as cursor:
        for name in TIMEOUTS:
            cursor.execute(f"SHOW {name}")
            values += cursor.fetchone()
    return values


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


def test_the_timeouts_are_restored_after_migrations():
    call_command("migrate", verbosity=0)
    assert "0" not in timeouts()

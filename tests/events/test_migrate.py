"""Migrations take the time they need; everything else is held to the limits of a request."""

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.models.signals import post_migrate

from events.management.commands.migrate import LIMITS

NOT_POSTGRESQL = connection.vendor != "postgresql"
NONE = ["0"] * len(LIMITS)

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(NOT_POSTGRESQL, reason="only PostgreSQL has these limits"),
]


def limits():
    found = []
    with connection.cursor() as cursor:
        for name in LIMITS:
            cursor.execute(f"SHOW {name}")
            found += cursor.fetchone()
    return found


def test_migrations_run_without_limits():
    during = []

    def look(**kwargs):
        during.append(limits())

    post_migrate.connect(look)
    try:
        call_command("migrate", verbosity=0)
    finally:
        post_migrate.disconnect(look)
    assert during
    assert all(found == NONE for found in during)


def test_after_them_the_connection_has_its_limits_again():
    call_command("migrate", verbosity=0)
    assert "0" not in limits()

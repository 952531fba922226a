"""During an upgrade the old code still inserts rows into tables that are already migrated.

So a migration after the first gives each column that must not be null a ``db_default``.
"""

from collections.abc import Iterable, Iterator

import pytest
from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation

pytestmark = pytest.mark.once

APPS = ("desks", "events", "signals", "tokens")
FIRST = "0001_initial"


def flattened(operations: Iterable[Operation]) -> Iterator[Operation]:
    for operation in operations:
        if isinstance(operation, migrations.SeparateDatabaseAndState):
            yield from flattened(operation.database_operations)
        else:
            yield operation


def unsafe_columns(migration: migrations.Migration) -> list[str]:
    """The columns that this migration adds or makes NOT NULL, and that have no ``db_default``."""
    return [
        f"{operation.model_name}.{operation.name}"
        for operation in flattened(migration.operations)
        if isinstance(operation, migrations.AddField | migrations.AlterField)
        and not operation.field.many_to_many
        and not operation.field.null
        and not operation.field.has_db_default()
    ]


def later_migrations() -> dict[tuple[str, str], migrations.Migration]:
    on_disk = MigrationLoader(None, ignore_no_migrations=True).disk_migrations
    return {key: one for key, one in on_disk.items() if key[0] in APPS and key[1] != FIRST}


def test_each_app_has_its_first_migration():
    on_disk = MigrationLoader(None).disk_migrations
    assert {app for app, name in on_disk if name == FIRST} >= set(APPS)


def test_old_code_can_insert_rows_while_a_later_migration_is_applied():
    found = {key: unsafe_columns(migration) for key, migration in later_migrations().items()}
    assert {key: columns for key, columns in found.items() if columns} == {}


@pytest.mark.parametrize(
    ("field", "is_unsafe"),
    [
        (models.IntegerField(), True),
        (models.IntegerField(default=0), True),
        (models.IntegerField(default=0, db_default=0), False),
        (models.IntegerField(null=True), False),
        (models.ManyToManyField("desks.Desk"), False),
    ],
)
@pytest.mark.parametrize("operation", [migrations.AddField, migrations.AlterField])
@pytest.mark.parametrize("is_nested", [False, True])
def test_a_column_without_a_database_default_is_found(operation, field, is_unsafe, is_nested):
    planted = migrations.Migration("0002_planted", "desks")
    change = operation("desk", "planted", field)
    nested = migrations.SeparateDatabaseAndState(database_operations=[change])
    planted.operations = [nested if is_nested else change]
    assert unsafe_columns(planted) == (["desk.planted"] if is_unsafe else [])

"""Migrations: one that has landed never changes, and the old code can insert rows after a new one.

Databases have applied a migration that has landed, and Django compares only its name: a change
would never reach them. ``tests/migrations.sha256`` lists the digest of each, as ``sha256sum``
prints it.

During an upgrade the old code still inserts rows into tables that are already migrated. So a
migration after the first gives each column that must not be null a ``db_default``.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation

pytestmark = pytest.mark.once

APPS = ("desks", "events", "signals", "tokens")
FIRST = "0001_initial"

ROOT = Path(__file__).parents[2]
DIGESTS = "tests/migrations.sha256"
STABLE_MODULES = {"desks.ids", "events.columns"}


def faults(root: Path) -> list[str]:
    """What is wrong with the migrations under ``root``, each with what to do."""
    lines = (root / DIGESTS).read_text().splitlines()
    listed = {path: digest for digest, path in map(str.split, lines)}
    present = {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for app in APPS
        for path in (root / app / "migrations").glob("0*.py")
    }
    return [
        *(
            f"{path} has landed and is gone. Databases have applied it: restore it."
            for path in sorted(listed.keys() - present.keys())
        ),
        *(
            f"{path} changed, but Django never applies it again to a database that has it: undo "
            f"the change and write a new migration. If it is not on main yet, replace its line in "
            f"{DIGESTS}."
            for path in sorted(listed.keys() & present.keys())
            if listed[path] != present[path]
        ),
        *(
            f"{path} is new: sha256sum {path} >>{DIGESTS}"
            for path in sorted(present.keys() - listed.keys())
        ),
    ]


def test_no_migration_that_has_landed_changed():
    assert faults(ROOT) == []


def test_a_migration_that_is_gone_changed_or_unlisted_is_found(tmp_path):
    for app in APPS:
        (tmp_path / app / "migrations").mkdir(parents=True)
    (tmp_path / "tests").mkdir()
    (tmp_path / "events/migrations/0001_initial.py").write_text("changed")
    (tmp_path / "events/migrations/0002_new.py").write_text("new")
    (tmp_path / DIGESTS).write_text(
        f"{'0' * 64}  events/migrations/0001_initial.py\n"
        f"{'0' * 64}  desks/migrations/0001_gone.py\n"
    )
    found = [fault.split(maxsplit=3)[:3] for fault in faults(tmp_path)]
    assert found == [
        ["desks/migrations/0001_gone.py", "has", "landed"],
        ["events/migrations/0001_initial.py", "changed,", "but"],
        ["events/migrations/0002_new.py", "is", "new:"],
    ]


def test_migrations_import_only_modules_that_stay_where_they_are():
    for path in (path for app in APPS for path in (ROOT / app / "migrations").glob("0*.py")):
        modules = re.findall(r"^(?:import|from) (\S+)", path.read_text(), re.MULTILINE)
        ours = {module for module in modules if module.split(".")[0] in (*APPS, "config")}
        assert ours <= STABLE_MODULES, path


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

"""What models and migrations say of the database, compared with the database.

``lacks`` asks whether this release can serve: its migrations are applied, and what its models need
exists. More tables, more columns that a row may leave out and more indexes change nothing, so a
release stays in service on a database that a newer one has migrated. It only reads.

``differences`` compares exactly, with the tables that the applied migrations describe. To know how
the database itself defines those, it makes them once more, empty: in memory with SQLite, as
temporary tables that are rolled back with PostgreSQL.
"""

import re
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

from django.apps import apps
from django.apps.registry import Apps
from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.models import ForeignKey, Model


class Part(NamedTuple):
    """A column, a constraint or an index, as the database defines it."""

    table: str
    kind: str
    name: str
    definition: str


# What a column has that a row may leave out.
_GIVEN_BY_DATABASE = re.compile("DEFAULT|GENERATED|IDENTITY")

# --- What this release needs ----------------------------------------------------------------------


def lacks(connection: BaseDatabaseWrapper) -> list[str]:
    """What this release needs and the database does not have, in a sentence each."""
    return pending(connection) or missing(connection)


def pending(connection: BaseDatabaseWrapper) -> list[str]:
    """The migrations that are not applied, in a sentence each."""
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return [f"The migration {each.app_label}.{each.name} is not applied." for each, _ in plan]


def missing(connection: BaseDatabaseWrapper, registry: Apps = apps) -> list[str]:
    """What the models need and the database does not have, in a sentence each."""
    models = stored_models(connection, registry)
    parts = _parts(connection, models)
    found = list[str]()
    for model in models:
        table = model._meta.db_table
        own = [part for part in parts if part.table == table]
        if own:
            found += [*_missing_columns(model, own), *_missing_constraints(model, own)]
        else:
            found.append(f"The table {table} is missing.")
    return found


def stored_models(connection: BaseDatabaseWrapper, registry: Apps = apps) -> list[type[Model]]:
    """The models that have a table, with those of many-to-many relations."""
    models = registry.get_models(include_auto_created=True)
    return [model for model in models if model._meta.can_migrate(connection)]


def _missing_columns(model: type[Model], parts: list[Part]) -> Iterator[str]:
    table = model._meta.db_table
    needed = {str(field.column) for field in model._meta.local_concrete_fields}
    present = {part.name: part.definition for part in parts if part.kind == "column"}
    for name in sorted(needed - present.keys()):
        yield f"The column {name} of {table} is missing."
    for name in sorted(present.keys() - needed):
        if "NOT NULL" in present[name] and not _GIVEN_BY_DATABASE.search(present[name]):
            yield f"The column {name} of {table} must be given, and no model has it."


def _missing_constraints(model: type[Model], parts: list[Part]) -> Iterator[str]:
    """A constraint of the model is found by its name, one of a field by its definition."""
    options, table = model._meta, model._meta.db_table
    names = {part.name for part in parts if part.kind != "column"}
    definitions = {_normal(part.definition) for part in parts if part.kind != "column"}
    columns = {field.name: str(field.column) for field in options.local_concrete_fields}
    for constraint in options.constraints:
        if constraint.name not in names:
            yield f"The constraint {constraint.name} of {table} is missing."
    for field in options.local_concrete_fields:
        if field.primary_key and _normal(f"PRIMARY KEY ({field.column})") not in definitions:
            yield f"The primary key {field.column} of {table} is missing."
        elif field.unique and not field.primary_key:
            yield from _not_unique(table, [str(field.column)], definitions)
        if isinstance(field, ForeignKey) and getattr(field, "db_constraint", True):
            target = field.target_field
            key = (
                f"FOREIGN KEY ({field.column}) REFERENCES "
                f"{target.model._meta.db_table}({target.column}) DEFERRABLE INITIALLY DEFERRED"
            )
            if _normal(key) not in definitions:
                yield f"The foreign key {field.column} of {table} is missing."
    for together in options.unique_together:
        yield from _not_unique(table, [columns[name] for name in together], definitions)


def _not_unique(table: str, columns: list[str], definitions: Collection[str]) -> Iterator[str]:
    listed = ", ".join(columns)
    forms = f"UNIQUE ({listed})", f"CREATE UNIQUE INDEX ON {table} ({listed})"
    if not any(_normal(form) in definitions for form in forms):
        yield f"Nothing makes {listed} of {table} unique."


# --- What the applied migrations describe ---------------------------------------------------------


def differences(connection: BaseDatabaseWrapper) -> list[str]:
    """How the database differs from what its applied migrations describe, in a sentence each.

    It says only what is missing if a newer release has migrated the database, because this release
    does not know those migrations; and on a server that takes no writes, such as a standby.
    """
    loader = MigrationLoader(connection)
    known = [node for node in loader.applied_migrations if node in loader.graph.nodes]
    registry = loader.project_state(known).apps
    if len(known) < len(loader.applied_migrations) or _is_read_only(connection):
        return missing(connection, registry)
    return differences_from(connection, registry)


def differences_from(connection: BaseDatabaseWrapper, registry: Apps) -> list[str]:
    """How the database differs from the tables of these models, in a sentence each."""
    models = stored_models(connection, registry)
    with _made_anew(connection, models) as reference:
        expected = _parts(reference, models)
    return list(_compared(expected, _parts(connection, models)))


def _is_read_only(connection: BaseDatabaseWrapper) -> bool:
    if connection.vendor != "postgresql":
        return False
    with connection.cursor() as cursor:
        cursor.execute("SHOW transaction_read_only")
        return bool(cursor.fetchone()[0] == "on")


def _compared(expected: list[Part], present: list[Part]) -> Iterator[str]:
    needed, found = _by_key(expected), _by_key(present)
    for table in sorted({part.table for part in expected} - {part.table for part in present}):
        yield f"The table {table} is missing."
        needed = {key: part for key, part in needed.items() if part.table != table}
    for key in sorted(needed.keys() | found.keys()):
        one, other = needed.get(key), found.get(key)
        if one and other:
            if _normal(one.definition) != _normal(other.definition):
                yield (
                    f"The {one.kind} {one.name} of {one.table} is {other.definition!r} "
                    f"and not {one.definition!r}."
                )
        elif one:
            yield f"The {one.kind} {one.name or one.definition} of {one.table} is missing."
        elif other:
            yield (
                f"The {other.kind} {other.name or other.definition} of {other.table} "
                "is in no migration."
            )


def _by_key(parts: list[Part]) -> dict[tuple[str, ...], Part]:
    return {(part.table, part.kind, part.name or _normal(part.definition)): part for part in parts}


# PostgreSQL writes a condition differently after a dump and a restore: its casts move.
_CAST = re.compile(r"::[a-z]+(?: [a-z]+)*(?:\([\d,]+\))?(?:\[\])?")
_QUOTES_AND_SPACES = re.compile(r'["\s]+')


def _normal(definition: str) -> str:
    """A definition without what may differ between databases with the same schema."""
    return _QUOTES_AND_SPACES.sub("", _CAST.sub("", definition))


@contextmanager
def _made_anew(
    connection: BaseDatabaseWrapper, models: list[type[Model]]
) -> Iterator[BaseDatabaseWrapper]:
    """A connection that sees new, empty tables of these models, and no other."""
    if connection.vendor == "postgresql":
        with transaction.atomic(using=connection.alias):
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL search_path TO pg_temp")
                # Nobody waits for it, and on a busy machine it may stand still.
                cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            _make(connection, models)
            yield connection
            transaction.set_rollback(True, using=connection.alias)
    else:
        memory = connection.copy()
        memory.settings_dict["NAME"] = ":memory:"
        with closing(memory):
            _make(memory, models)
            yield memory


def _make(connection: BaseDatabaseWrapper, models: list[type[Model]]) -> None:
    with connection.schema_editor() as editor:
        for model in models:
            if not model._meta.auto_created:  # create_model makes those of its relations
                editor.create_model(model)


def _parts(connection: BaseDatabaseWrapper, models: list[type[Model]]) -> list[Part]:
    """All parts of the models' tables. The name of a part is empty unless a model gives it."""
    names = {
        each.name for model in models for each in (*model._meta.constraints, *model._meta.indexes)
    }
    read = _read_postgresql if connection.vendor == "postgresql" else _read_sqlite
    return [
        part if part.kind == "column" or part.name in names else part._replace(name="")
        for part in read(connection, [model._meta.db_table for model in models])
    ]


_POSTGRESQL = """
WITH tables AS (
    SELECT oid, relname FROM pg_class
    WHERE relkind IN ('r', 'p') AND relname = ANY(%s) AND pg_table_is_visible(oid)
)
SELECT relname, 'column', attname, concat_ws(
    ' ',
    format_type(atttypid, atttypmod),
    CASE WHEN attnotnull THEN 'NOT NULL' END,
    CASE WHEN attidentity <> '' THEN 'IDENTITY' END,
    CASE WHEN attgenerated <> '' THEN 'GENERATED' WHEN atthasdef THEN 'DEFAULT' END,
    pg_get_expr(adbin, adrelid, true)
)
FROM tables JOIN pg_attribute ON attrelid = tables.oid
LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE attnum > 0 AND NOT attisdropped
UNION ALL
SELECT relname, 'constraint', conname, pg_get_constraintdef(pg_constraint.oid, true)
FROM tables JOIN pg_constraint ON conrelid = tables.oid
WHERE contype <> 'n'
UNION ALL
SELECT tables.relname, 'index', pg_class.relname, concat_ws(
    ' ',
    pg_get_indexdef(indexrelid, 0, true),
    CASE WHEN NOT indisvalid THEN 'INVALID' END
)
FROM tables JOIN pg_index ON indrelid = tables.oid JOIN pg_class ON pg_class.oid = indexrelid
WHERE NOT EXISTS (
    SELECT FROM pg_constraint WHERE conindid = indexrelid AND contype IN ('p', 'u', 'x')
)
"""


def _read_postgresql(connection: BaseDatabaseWrapper, tables: list[str]) -> Iterator[Part]:
    with connection.cursor() as cursor:
        cursor.execute(_POSTGRESQL, [tables])
        for table, kind, name, definition in cursor.fetchall():
            yield Part(table, kind, name, _plain_index(definition))


def _read_sqlite(connection: BaseDatabaseWrapper, tables: list[str]) -> Iterator[Part]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT type, name, tbl_name, sql FROM sqlite_master"
            " WHERE type IN ('table', 'index') AND sql IS NOT NULL"
        )
        for kind, name, table, statement in cursor.fetchall():
            if table in tables and kind == "index":
                yield Part(table, kind, name, _plain_index(statement))
            elif table in tables:
                yield from _parts_of_statement(table, statement)


_NAME_OF_INDEX = re.compile(r'(?<=INDEX )(?:"[^"]*"|\S+) (?=ON )')


def _plain_index(definition: str) -> str:
    """The definition of an index without its name and the usual method."""
    return _NAME_OF_INDEX.sub("", definition).replace(" USING btree", "", 1)


# Text in quotes, a parenthesis, a comma, or anything else.
_TEXTS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[(),]|[^'"(),]+""")
_NAMED = re.compile(r'(CONSTRAINT )?"([^"]+)"\s+(.*)', re.DOTALL)
_PRIMARY_KEY = re.compile(r" PRIMARY KEY\b")
_UNIQUE = re.compile(r" UNIQUE\b")
_REFERENCES = re.compile(r' REFERENCES "[^"]+" \("[^"]+"\)( DEFERRABLE INITIALLY DEFERRED)?')


def _parts_of_statement(table: str, statement: str) -> Iterator[Part]:
    """The columns and constraints of a CREATE TABLE as Django writes it."""
    for piece in _pieces(statement):
        named = _NAMED.fullmatch(piece)
        if named is None:
            yield Part(table, "constraint", "", piece)
        elif named[1]:
            yield Part(table, "constraint", named[2], named[3])
        else:
            yield from _parts_of_column(table, named[2], named[3])


def _parts_of_column(table: str, column: str, definition: str) -> Iterator[Part]:
    """A column, and its own constraints as PostgreSQL names them."""
    if _PRIMARY_KEY.search(definition):
        yield Part(table, "constraint", "", f"PRIMARY KEY ({column})")
    if _UNIQUE.search(definition):
        yield Part(table, "constraint", "", f"UNIQUE ({column})")
    if found := _REFERENCES.search(definition):
        yield Part(table, "constraint", "", f"FOREIGN KEY ({column}){found[0]}")
    for constraint in _PRIMARY_KEY, _UNIQUE, _REFERENCES:
        definition = constraint.sub("", definition)
    yield Part(table, "column", column, definition)


def _pieces(statement: str) -> Iterator[str]:
    """What is between the outer parentheses, split at the commas that are in no others."""
    depth, piece = 0, ""
    for text in _TEXTS.findall(statement):
        is_open, is_closed = text == "(", text == ")"
        depth -= is_closed
        if depth == 0 or (depth == 1 and text == ","):
            if piece:
                yield piece.strip()
            piece = ""
        else:
            piece += text
        depth += is_open

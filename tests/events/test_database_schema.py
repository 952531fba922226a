"""What the models and the migrations say of the database is compared with the database."""

import contextlib

import pytest
from django.db import connection, migrations, models, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from events import database_schema

pytestmark = pytest.mark.django_db

ON_POSTGRESQL = connection.vendor == "postgresql"


def run(*statements):
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def rewrite(table, old, new):
    """Changes the statement that SQLite says has made a table or an index."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA writable_schema = ON")
        cursor.execute(
            "UPDATE sqlite_master SET sql = replace(sql, %s, %s) WHERE name = %s AND sql LIKE %s",
            [old, new, table, f"%{old}%"],
        )
        changed = cursor.rowcount
        cursor.execute("PRAGMA writable_schema = OFF")
    assert changed == 1


def drop_constraint(table, kind):
    """Drops the only constraint of a kind that a PostgreSQL table has, whatever its name is."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conname FROM pg_constraint WHERE conrelid = %s::regclass AND contype = %s",
            [table, kind],
        )
        ((name,),) = cursor.fetchall()
        cursor.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{name}" CASCADE')


def test_a_migrated_database_lacks_nothing_and_differs_in_nothing():
    assert (database_schema.lacks(connection), database_schema.differences(connection)) == ([], [])


def test_comparing_leaves_nothing_behind():
    with connection.cursor() as cursor:
        before = connection.introspection.table_names(cursor)
        database_schema.differences(connection)
        assert connection.introspection.table_names(cursor) == before


def a_column():
    run("ALTER TABLE events_head RENAME COLUMN position TO place")


def a_table():
    run("ALTER TABLE desks_refusaltold RENAME TO refusals")


def a_named_constraint():
    if ON_POSTGRESQL:
        run("ALTER TABLE signals_signal DROP CONSTRAINT nonce_is_single_use")
    else:
        rewrite(
            "signals_signal",
            ', CONSTRAINT "nonce_is_single_use" UNIQUE ("nonce", "signer")',
            "",
        )


def a_partial_constraint():
    run("DROP INDEX one_card_is_published")


def a_primary_key():
    if ON_POSTGRESQL:
        drop_constraint("desks_bookmark", "p")
    else:
        rewrite("desks_bookmark", "NOT NULL PRIMARY KEY", "NOT NULL")


def a_foreign_key():
    if ON_POSTGRESQL:
        drop_constraint("desks_automation", "f")
    else:
        rewrite(
            "desks_automation", ' REFERENCES "desks_desk" ("id") DEFERRABLE INITIALLY DEFERRED', ""
        )


def a_unique_column():
    if ON_POSTGRESQL:
        run("ALTER TABLE desks_card DROP CONSTRAINT desks_card_opened_key")
    else:
        rewrite("desks_card", '"opened" bigint NOT NULL UNIQUE', '"opened" bigint NOT NULL')


def columns_that_are_unique_together():
    if ON_POSTGRESQL:
        drop_constraint("django_content_type", "u")
    else:
        run("DROP INDEX django_content_type_app_label_model_76bd3d3b_uniq")


@pytest.mark.parametrize(
    ("lose", "sentence"),
    [
        (a_column, "The column position of events_head is missing."),
        (a_table, "The table desks_refusaltold is missing."),
        (a_named_constraint, "The constraint nonce_is_single_use of signals_signal is missing."),
        (a_partial_constraint, "The constraint one_card_is_published of desks_card is missing."),
        (a_primary_key, "The primary key name of desks_bookmark is missing."),
        (a_foreign_key, "The foreign key desk_id of desks_automation is missing."),
        (a_unique_column, "Nothing makes opened of desks_card unique."),
        (
            columns_that_are_unique_together,
            "Nothing makes app_label, model of django_content_type unique.",
        ),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_what_the_models_need_and_is_missing_is_named(lose, sentence):
    lose()
    assert sentence in database_schema.lacks(connection)
    assert database_schema.differences(connection) != []


def test_a_column_that_the_models_do_not_know_and_a_row_must_have_is_named():
    a_column()
    assert (
        "The column place of events_head must be given, and no model has it."
        in database_schema.lacks(connection)
    )


def test_a_migration_that_is_not_applied_is_named():
    ((_, last),) = MigrationLoader(connection).graph.leaf_nodes("signals")
    MigrationRecorder(connection).record_unapplied("signals", last)
    assert f"The migration signals.{last} is not applied." in database_schema.lacks(connection)


def another_column():
    run('ALTER TABLE desks_desk ADD COLUMN "later" text NULL')


def another_column_with_a_default():
    run('ALTER TABLE desks_desk ADD COLUMN "later" integer DEFAULT 3 NOT NULL')


def another_index():
    run("CREATE INDEX later ON desks_desk (created_at)")


def one_index_less():
    run("DROP INDEX event_topic")


def an_index_of_other_rows():
    run("DROP INDEX bot_due", "CREATE INDEX bot_due ON desks_automation (due_at)")


def an_index_of_other_columns():
    run("DROP INDEX event_kind", "CREATE INDEX event_kind ON events_event (kind)")


def a_longer_column():
    if ON_POSTGRESQL:
        run("ALTER TABLE desks_automation ALTER COLUMN name TYPE varchar(81)")
    else:
        rewrite("desks_automation", '"name" varchar(80)', '"name" varchar(81)')


def a_column_that_may_be_null():
    if ON_POSTGRESQL:
        run("ALTER TABLE desks_card ALTER COLUMN name DROP NOT NULL")
    else:
        rewrite("desks_card", '"name" varchar(80) NOT NULL', '"name" varchar(80) NULL')


def another_condition():
    if ON_POSTGRESQL:
        run(
            "ALTER TABLE events_event DROP CONSTRAINT event_position_counts_from_1",
            "ALTER TABLE events_event ADD CONSTRAINT event_position_counts_from_1"
            " CHECK (position >= 0)",
        )
    else:
        rewrite("events_event", '"position" > 0', '"position" >= 0')


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (another_column, "The column later of desks_desk is in no migration."),
        (another_column_with_a_default, "The column later of desks_desk is in no migration."),
        (another_index, "The index CREATE INDEX ON desks_desk"),
        (one_index_less, "The index event_topic of events_event is missing."),
        (an_index_of_other_rows, "The index bot_due of desks_automation is "),
        (an_index_of_other_columns, "The index event_kind of events_event is "),
        (a_longer_column, "The column name of desks_automation is "),
        (a_column_that_may_be_null, "The column name of desks_card is "),
        (another_condition, "The constraint event_position_counts_from_1 of events_event is "),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_what_the_models_can_do_with_is_only_found_by_the_exact_comparison(change, named):
    change()
    assert database_schema.lacks(connection) == []
    found = database_schema.differences(connection)
    assert len(found) == 1
    assert found[0].replace('"', "").startswith(named)


@pytest.mark.skipif(not ON_POSTGRESQL, reason="Only PostgreSQL rewrites conditions.")
def test_conditions_as_a_restore_writes_them_differ_in_nothing():
    """The casts of ``IN`` move each time that PostgreSQL reads its own definition."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conrelid::regclass, conname, pg_get_constraintdef(oid) FROM pg_constraint"
            " WHERE contype = 'c' AND connamespace = 'public'::regnamespace"
        )
        checks = cursor.fetchall()
    assert len(checks) > 20
    for table, name, definition in checks:
        run(
            f'ALTER TABLE {table} DROP CONSTRAINT "{name}"',
            f'ALTER TABLE {table} ADD CONSTRAINT "{name}" {definition}',
        )
    assert database_schema.differences(connection) == []


def test_after_a_newer_release_only_what_is_missing_counts():
    """This release does not know what the newer migration makes."""
    MigrationRecorder(connection).record_applied("desks", "9999_of_a_newer_release")
    another_column()
    assert (database_schema.lacks(connection), database_schema.differences(connection)) == ([], [])
    a_named_constraint()
    assert database_schema.differences(connection) == [
        "The constraint nonce_is_single_use of signals_signal is missing."
    ]


@pytest.mark.skipif(not ON_POSTGRESQL, reason="Only PostgreSQL has servers that take no writes.")
@pytest.mark.django_db(transaction=True)
def test_a_server_that_takes_no_writes_is_compared_without_writing():
    with transaction.atomic():
        run("SET TRANSACTION READ ONLY")
        assert database_schema.differences(connection) == []


@pytest.mark.skipif(not ON_POSTGRESQL, reason="Only PostgreSQL ends a transaction that idles.")
def test_the_comparison_may_stand_still_on_a_busy_machine():
    during = []

    def record(execute, sql, *rest):
        if sql.startswith("CREATE TABLE"):
            with connection.cursor() as cursor:
                cursor.execute("SHOW idle_in_transaction_session_timeout")
                during.extend(cursor.fetchone())
        return execute(sql, *rest)

    with connection.execute_wrapper(record):
        assert database_schema.differences(connection) == []
    assert set(during) == {"0"}


@contextlib.contextmanager
def tables_of(state, tmp_path):
    """A connection to a database with the tables of this state, which is thrown away."""
    if ON_POSTGRESQL:
        yield connection  # the test's transaction, which is rolled back
        return
    other = connection.copy()
    other.settings_dict["NAME"] = str(tmp_path / "other.sqlite3")
    with contextlib.closing(other):
        database_schema._make(other, database_schema.stored_models(other, state.apps))
        yield other


LATER = [
    migrations.CreateModel("Later", [("id", models.BigAutoField(primary_key=True))]),
    migrations.AddField("desk", "note", models.CharField(max_length=9, null=True)),
    migrations.AddField("desk", "rank", models.PositiveIntegerField(default=1, db_default=1)),
    migrations.AddField("desk", "word", models.CharField(max_length=9, default="", db_default="")),
    migrations.AddField("desk", "flag", models.BooleanField(default=False, db_default=False)),
    migrations.AddField("card", "later", models.ForeignKey("Later", models.PROTECT, null=True)),
    migrations.AddField("card", "number", models.BigIntegerField(null=True, unique=True)),
    migrations.AddField("later", "desks", models.ManyToManyField("desks.Desk")),
    migrations.AlterField("card", "name", models.CharField(max_length=99)),
    migrations.AddIndex("card", models.Index(fields=["name"], name="card_name")),
    migrations.AddConstraint(
        "card", models.CheckConstraint(condition=models.Q(number__gt=0), name="card_number")
    ),
    migrations.RemoveConstraint("desk", "desk_enrols_once_connected"),
    migrations.RemoveField("automation", "max_age"),
]


def test_tables_that_later_migrations_have_changed_differ_in_nothing(tmp_path):
    state = MigrationLoader(connection).project_state()
    with tables_of(state, tmp_path) as changed:
        for operation in LATER:
            before, state = state, state.clone()
            operation.state_forwards("desks", state)
            with changed.schema_editor() as editor:
                operation.database_forwards("desks", editor, before, state)
        found = database_schema.differences_from(changed, state.apps)
    assert found == []

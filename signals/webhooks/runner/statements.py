"""Handwritten SQL for what the runner does for every delivery.

Building it with the ORM would take several times as long as the statement. The tables' names come
from the models. In a statement, ``{now}`` is the database's time, and ``{in_ids}`` and
``{in_topics}`` compare with a list that is one parameter, so that the text is always the same.
"""

import functools
import json
from collections.abc import Collection, Iterable
from typing import Any

from django.db import connection

from desks.models import Desk
from events.models import Event
from events.statements import adapt_datetime
from signals.webhooks.models import DeliveryAttempt, State, Subscription, SubscriptionSecret

TABLE = Subscription._meta.db_table
DESK, EVENT, SECRET, ATTEMPT = (
    model._meta.db_table for model in (Desk, Event, SubscriptionSecret, DeliveryAttempt)
)
ACTIVE = f"state = '{State.ACTIVE.value}'"

IS_READY = f"""(leased_until IS NULL OR leased_until <= {{now}})
    AND (test_requested_at IS NOT NULL
        OR {ACTIVE} AND (failures = 0 OR next_attempt_at IS NULL OR next_attempt_at <= {{now}}))"""
# The row is due when the lease ends, so that a runner that was killed leaves nothing behind.
TAKE = f"""
UPDATE {TABLE} SET leased_until = {{until}}, next_attempt_at = {{until}},
    lease_generation = lease_generation + 1
WHERE id IN (SELECT id FROM {TABLE} WHERE id {{in_ids}} AND {IS_READY} {{skip_locked}})
RETURNING id, lease_generation"""

# What a runner needs of a subscription. The rest of the row is loaded where it is asked for.
LEASED_FIELDS = (
    *("id", "ciphertext", "key_id", "public_id", "desk_id", "kinds", "state", "revision"),
    *("cursor_epoch", "cursor_position", "failures", "failing_since", "test_requested_at"),
    *("leased_until", "lease_generation", "key_lost_at"),
)  # in the model's order
SECRET_FIELDS = ("id", "ciphertext", "key_id", "public_id")
READ = f"""
SELECT {", ".join(f"subscription.{name}" for name in LEASED_FIELDS)}, desk.public_id,
    {", ".join(f"secret.{name}" for name in SECRET_FIELDS)}
FROM {TABLE} AS subscription
LEFT JOIN {DESK} AS desk ON desk.id = subscription.desk_id
LEFT JOIN {SECRET} AS secret ON secret.subscription_id = subscription.id
    AND (secret.ends_at IS NULL OR secret.ends_at > {{now}})
WHERE subscription.id {{in_ids}} ORDER BY subscription.id, secret.id DESC"""

NEWS = f"""
SELECT DISTINCT topic, kind FROM {EVENT} WHERE position > %(after)s AND position <= %(until)s"""
# What waits for its time after a failure is due then, whatever is new. One with a lease has news:
# also if the lease is over, because its runner may still end the session.
IS_AWAKE = f"{ACTIVE} AND (failures = 0 OR leased_until IS NOT NULL OR next_attempt_at IS NULL)"
OF_DESKS = f"""
SELECT subscription.id, subscription.kinds FROM {DESK} AS desk
JOIN {TABLE} AS subscription ON subscription.desk_id = desk.id
WHERE desk.public_id {{in_topics}} AND {IS_AWAKE}
UNION ALL SELECT id, kinds FROM {TABLE} WHERE desk_id IS NULL AND {IS_AWAKE}"""

ATTEMPT_COLUMNS = (
    *("subscription_id", "position", "at", "milliseconds", "status", "error"),
    *("ciphertext", "key_id"),
)
INSERT_ATTEMPT = f"""
INSERT INTO {ATTEMPT} ({", ".join(ATTEMPT_COLUMNS)})
VALUES ({", ".join(["%s"] * len(ATTEMPT_COLUMNS))})"""


def now() -> str:
    """The SQL of the time of the statement."""
    if connection.vendor == "postgresql":
        return "statement_timestamp()"
    return "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now')"


def after(parameter: str) -> str:
    """The SQL of the time some seconds later. The parameter is their number."""
    if connection.vendor == "postgresql":
        return f"statement_timestamp() + make_interval(secs => %({parameter})s)"
    return f"strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', %({parameter})s || ' seconds')"


def fetch(statement: str, **given: Any) -> list[Any]:
    """The rows of one of the statements above. A list is given as one parameter."""
    adapted = {name: _adapted(value) for name, value in given.items()}
    with connection.cursor() as cursor:
        cursor.execute(_written(statement, connection.vendor), adapted)
        return list(cursor.fetchall())


def update(changes: str, where: str, given: dict[str, Any]) -> Any:
    """Changes a row. Returns its state, and when a test was asked for; None if there is no row."""
    statement = f"UPDATE {TABLE} SET {changes} WHERE {where} RETURNING state, test_requested_at"
    with connection.cursor() as cursor:
        cursor.execute(statement, given)
        rows = cursor.fetchall()
    return rows[0] if rows else None


def insert_attempts(attempts: Iterable[DeliveryAttempt]) -> None:
    """Stores attempts."""
    rows = [
        [
            adapt_datetime(attempt.at) if name == "at" else getattr(attempt, name)
            for name in ATTEMPT_COLUMNS
        ]
        for attempt in attempts
    ]
    with connection.cursor() as cursor:
        cursor.executemany(INSERT_ATTEMPT, rows)


@functools.cache
def _written(statement: str, vendor: str) -> str:
    """The statement as this database reads it."""
    is_postgresql = vendor == "postgresql"
    one_of = "= ANY(%({0})s)" if is_postgresql else "IN (SELECT value FROM json_each(%({0})s))"
    return statement.format(
        now=now(),
        until=after("lease"),
        in_ids=one_of.format("ids"),
        in_topics=one_of.format("topics"),
        skip_locked="FOR UPDATE SKIP LOCKED" if is_postgresql else "",
    )


def _adapted(value: Any) -> Any:
    if not isinstance(value, Collection) or isinstance(value, str):
        return value
    return list(value) if connection.vendor == "postgresql" else json.dumps(list(value))

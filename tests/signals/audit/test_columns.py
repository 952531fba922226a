"""The audit finds a changed value in every column that events describe, and names the row."""

from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.db.models import (
    BinaryField,
    BooleanField,
    DateTimeField,
    ForeignKey,
    IntegerField,
    JSONField,
)

from desks.models import (
    Automation,
    Bookmark,
    Chat,
    ChatCode,
    Connection,
    Desk,
    Election,
    NoticeChoice,
    QueuedNotice,
    RefusalTold,
    User,
)
from events.kinds import Kind
from events.models import Event, Head
from signals.audit import findings
from signals.intake.models import Outcome, Signal
from signals.notices.models import KnownConcern, TelegramReader
from signals.outbound.schedule import Rate
from signals.site.downloads import ExportLease
from signals.webhooks.models import DeliveryAttempt, Subscription, SubscriptionSecret
from tests.signals.audit.conftest import MODELS
from tests.signals.audit.stage import broken, named, proved_at, rolled_back, spoken_of
from tokens.models import SigningSecret, Token

pytestmark = [pytest.mark.django_db, pytest.mark.slow, pytest.mark.once]

# The columns that the audit does not cover (``findings.NOT_COVERED``), except for values that
# cannot be (``test_states.py``).
NOT_COVERED = {
    *(
        (model, field.name)
        for model in (
            User,
            QueuedNotice,
            NoticeChoice,
            RefusalTold,
            Bookmark,
            ChatCode,
            ExportLease,
            KnownConcern,
            Rate,
            TelegramReader,
        )
        for field in model._meta.concrete_fields
    ),
    (Automation, "due_at"),
    (Desk, "id"),
    (Desk, "user"),
    (Election, "id"),
    (Token, "id"),
    (Token, "digest"),
    (Token, "last_used_at"),
    (SigningSecret, "id"),
    (Subscription, "id"),
    # What a runner changes is not in the log.
    (Subscription, "host"),
    (Subscription, "cursor_epoch"),
    (Subscription, "cursor_position"),
    (Subscription, "failures"),
    (Subscription, "failing_since"),
    (Subscription, "next_attempt_at"),
    (Subscription, "idempotency_digest"),
    (Subscription, "not_before"),
    (Subscription, "test_requested_at"),
    (Subscription, "resends"),
    (Subscription, "last_test_at"),
    (Subscription, "last_test_status"),
    (Subscription, "last_test_error"),
    (Subscription, "leased_until"),
    (Subscription, "lease_generation"),
    (Subscription, "last_delivered_at"),
    (Subscription, "last_status"),
    (Subscription, "key_lost_at"),
    (Subscription, "key_loss_told_at"),
    (SubscriptionSecret, "id"),
    *((DeliveryAttempt, field.name) for field in DeliveryAttempt._meta.concrete_fields),
    *(
        (Chat, field.name)
        for field in Chat._meta.concrete_fields
        if field.name not in ("key_id", "ciphertext")
    ),
    (Head, "id"),
    (Head, "epoch"),
    (Head, "at"),
    (Head, "halted"),
}
COLUMNS = [
    (model, field.name)
    for model in MODELS
    for field in model._meta.concrete_fields
    # The database computes some columns from others, which are covered.
    if (model, field.name) not in NOT_COVERED and not field.generated
]
# The rows in which a column is changed, if not all of them.
AMONG: dict[Any, dict[str, Any]] = {
    (Event, "actor_type"): {"kind": Kind.SIGNAL_FILLED},
    (Event, "actor_id"): {"kind": Kind.SIGNAL_FILLED},
    (Event, "at"): {"kind": Kind.SIGNAL_FILLED},
    (Token, "key_id"): {"revoked_at": None},
    (Signal, "filled"): {"outcome": Outcome.FILLED},
}
FAR = 1_000_000


def names_of(row):
    """The names that the audit may use for a row."""
    if isinstance(row, Connection):
        return {Desk.objects.get(pk=row.desk_id).public_id}
    if isinstance(row, Election):
        return {f"evt_{row.opened}"}
    if isinstance(row, Head):
        return {"head"}
    if isinstance(row, Event):
        return spoken_of(row)
    return {getattr(row, "public_id", None) or row.pk}


def another(field, row):
    """Another value for the column, a plausible one if possible."""
    value = getattr(row, field.attname)
    if isinstance(field, ForeignKey):
        others = field.related_model._default_manager.exclude(pk=value)
        if field.primary_key:
            others = others.filter(connection=None)
        return others.order_by("pk").first().pk
    if field.choices:
        return next(choice for choice, _ in field.choices if choice != value)
    if isinstance(field, BooleanField):
        return not value
    if isinstance(field, DateTimeField):
        return (value or Event.objects.latest("position").at) + timedelta(milliseconds=1)
    if isinstance(field, JSONField):
        return {"signal": None, "data": {"venue": "Forged"}}
    if isinstance(field, BinaryField):
        return b"cut"
    if isinstance(field, IntegerField):
        return FAR if value is None else value + FAR
    return changed(value) if value else "forged"


def changed(text):
    """The same text with another last character."""
    return text[:-1] + ("A" if text[-1] != "A" else "B")


def rows_to_falsify(model, field, which=0):
    """Two rows with a value, and one without if the column is nullable. ``which`` chooses them."""
    rows = model.objects.filter(**AMONG.get((model, field.name), {})).order_by("pk")
    if model is Event:
        rows = rows.exclude(kind=Kind.SIGNAL_REFUSED)
    have = list(rows.exclude(**{field.name: None}) if field.null else rows)
    lack = list(rows.filter(**{field.name: None})) if field.null else []
    chosen = [*at_most(2, have, which), *at_most(1, lack, which)]
    return list({row.pk: row for row in chosen}.values())


def at_most(number, rows, first):
    """A number of rows that are far from each other, from any first one on."""
    places = range(first, first + len(rows), -(-len(rows) // number)) if rows else []
    return [rows[place % len(rows)] for place in places]


def falsify(row, field, value):
    """Changes the column in the table, and in the object if it identifies the row."""
    type(row).objects.filter(pk=row.pk).update(**{field.attname: value})
    if isinstance(row, Signal) and field.name == "public_id":
        row.public_id = value


def falsified_together(model, columns):
    """Columns with rows to change in them, in groups in which no row is twice.

    A changed event changes what others mean, so each of them is alone.
    """
    groups: list[dict[Any, Any]] = []
    for which, column in enumerate(columns):
        field = model._meta.get_field(column)
        rows = rows_to_falsify(model, field, which)
        assert rows, column
        for row in rows:
            free = (one for one in groups if row.pk not in one) if model is not Event else ()
            group = next(iter(free), None)
            if group is None:
                groups.append(group := {})
            group[row.pk] = (row, field)
    return [list(group.values()) for group in groups]


def missed(model, group, value_of, proved=None):
    """The columns that the audit does not name a row for although all are changed."""
    changed = []
    with rolled_back():
        for row, field in group:
            value = value_of(field, row)
            falsify(row, field, value)
            changed.append((row, field.name, value, names_of(row)))
        found = named(broken(proved))
    return [(column, str(row), value) for row, column, value, names in changed if not names & found]


def columns_of(model):
    return [column for of, column in COLUMNS if of is model]


@pytest.fixture
def all_named(monkeypatch):
    """Each breach is named, however many there are."""
    monkeypatch.setattr(findings, "MAX_EXAMPLES", 1000)


@pytest.mark.parametrize("model", MODELS)
def test_a_changed_value_is_found(all_named, falsified, model):
    groups = falsified_together(model, columns_of(model))
    assert [one for group in groups for one in missed(model, group, another)] == []


@pytest.fixture(scope="module")
def proved(history, django_db_blocker):
    """What an audit of the whole history has proved."""
    with django_db_blocker.unblock():
        return proved_at(Head.objects.get().position)


# That an audit goes on with every value: test_proof.py.
@pytest.mark.parametrize("model", [model for model in MODELS if model not in (Event, Signal)])
def test_a_changed_value_is_found_by_an_audit_that_goes_on(all_named, proved, falsified, model):
    """In the last column of a table."""
    groups = falsified_together(model, columns_of(model)[-1:])
    assert [one for group in groups for one in missed(model, group, another, proved)] == []


@pytest.mark.parametrize("model", [model for model in MODELS if model is not Head])
def test_a_removed_value_is_found(all_named, falsified, model):
    nullable = [column for column in columns_of(model) if model._meta.get_field(column).null]
    groups = [
        [(row, field) for row, field in group if getattr(row, field.attname) is not None]
        for group in falsified_together(model, nullable)
    ]
    assert [one for group in groups for one in missed(model, group, lambda *_: None)] == []


def test_every_column_is_tested_or_listed_as_not_covered():
    columns = {
        (model, field.name)
        for app in ("desks", "events", "signals", "tokens")
        for model in apps.get_app_config(app).get_models()
        for field in model._meta.concrete_fields
        if not field.generated
    }
    assert columns == NOT_COVERED | set(COLUMNS)

"""One prepared database for all tests of a module. Each test changes it and is rolled back."""

import pytest
from django.db import connection, transaction

from desks.models import Automation, Card, Connection, Desk, Election
from desks.models.chat import Chat
from events.models import Event, Head
from signals.audit.run import Stored, read
from signals.intake.models import Signal
from signals.webhooks.models import Subscription, SubscriptionSecret
from tests.signals.audit import stage
from tokens.models import SigningSecret, Token

MODELS = (
    Desk,
    Connection,
    Card,
    Election,
    Automation,
    Token,
    SigningSecret,
    Signal,
    Subscription,
    SubscriptionSecret,
    Chat,
    Event,
    Head,
)


@pytest.fixture(scope="module")
def history(django_db_setup, django_db_blocker):
    """A database with every kind of event, in a transaction that ends with the module."""
    with django_db_blocker.unblock():
        outer = transaction.atomic()
        outer._from_testcase = True  # type: ignore[attr-defined]  # the log's turns are durable, and a test's block is not theirs
        with outer:
            stage.a_lively_history()
            if connection.vendor == "postgresql":
                connection.check_constraints()
            stage.drop_rules(*MODELS)
            yield
            transaction.set_rollback(True)
        stage.restore_rules()


@pytest.fixture
def falsified(history, django_db_blocker):
    """A transaction in which a test can change any row. It is rolled back."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.fixture(scope="module")
def stored(history, django_db_blocker):
    """What an audit reads of the history. Tests compare it with something else in its place."""
    with django_db_blocker.unblock():
        events, signals, tables = read(0, None)
        return Stored([*events], [*signals], {table: [*rows] for table, rows in tables.items()})

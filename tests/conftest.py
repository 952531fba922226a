"""What every test stands on."""

from typing import Any

import pytest
from django.conf import settings
from django.core.cache import cache
from django.db import connection

from desks import limits
from desks.models import Card, Desk
from tests import factories


@pytest.fixture(autouse=True)
def empty_cache() -> None:
    """No test inherits what another one left in the cache."""
    cache.clear()


@pytest.fixture(autouse=True)
def nothing_counted() -> None:
    """Nor what was counted for whom: ids recur when a test's rows are rolled back."""
    limits.rests_until.clear()
    limits.limiter(limits.IN_MEMORY).storage.reset()
    if settings.LIMITS_URL:
        limits.limiter(settings.LIMITS_URL).storage.reset()


@pytest.fixture(autouse=True)
def patient_transaction(request: pytest.FixtureRequest) -> None:
    """A test that stands in one transaction may dawdle there: the database would end a writer's.

    On a busy machine it did. Tests whose transactions are real keep the service's own patience.
    """
    mark = request.node.get_closest_marker("django_db")
    if mark is None or mark.kwargs.get("transaction"):
        return
    request.getfixturevalue("db")
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")


@pytest.fixture
def card(db: None) -> Card:
    """The published card."""
    return factories.a_card()


@pytest.fixture
def desk(card: Card) -> Desk:
    """A ready desk."""
    return factories.a_ready_desk(card)


@pytest.fixture
def stranger(card: Card) -> Desk:
    """A ready desk of somebody else, who has no access to what the test is about."""
    return factories.a_ready_desk(card)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest goes first, so that no worker is left with it: browsers, then servers."""
    items.sort(
        key=lambda item: (
            "browser" not in item.path.parts,
            not item.get_closest_marker("processes"),
        )
    )


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Names each test that did not run, and for lack of what: none is missed in silence."""
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        terminalreporter.write_line(f"NOT RUN {report.nodeid}: {reason}")

"""What the service under test is: the one that BASE_URL names, or real servers of our own."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.client import Bot, Browser, Service
from tests.conformance.witness import traces

# The limits of the server that tests them, each so many a minute.
FEW = 3
SMALL_LIMITS = {
    "LIMIT_AUTOMATION": f"{FEW}/minute",
    "LIMIT_PLATFORM": f"{FEW}/minute",
    "LIMIT_READS": f"{FEW}/minute",
    "LIMIT_FAILURES": f"{FEW}/minute",
    "LIMIT_MINTING": f"{FEW}/hour",
    "LIMIT_CHANGES": f"{FEW}/minute",
    "WEB_CONCURRENCY": "1",  # without a shared store each process counts for itself
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "processes: runs real processes")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.processes)


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    """The service under test, without a Nox secret where we start it."""
    if _is_named():
        with Service(os.environ["BASE_URL"], _seed()) as named:
            yield named
            _no_answer_held_a_secret(named)
        return
    with _serving() as server, Service(server.base_url, server.seed) as own:
        yield own
        _no_answer_held_a_secret(own)
        _nothing_keeps_a_secret(own, server)


@pytest.fixture(scope="session")
def nox_service(request: pytest.FixtureRequest) -> Iterator[Service]:
    """A service that has a Nox secret."""
    if _is_named():
        given: Service = request.getfixturevalue("service")
        if "noxSecret" not in given.seed:
            pytest.skip("This service has no Nox secret: seed it with --nox.")
        yield given
        return
    with (
        _serving(nox=True, ready=3, idle=0) as server,
        Service(server.base_url, server.seed) as own,
    ):
        yield own


@pytest.fixture(scope="session")
def limited_service() -> Iterator[Service]:
    """A service with small limits, so that they are reached."""
    if _is_named():
        pytest.skip("What the limits of this service are is not known.")
    with (
        _serving(ready=3, idle=0, **SMALL_LIMITS) as server,
        Service(server.base_url, server.seed) as own,
    ):
        yield own


@pytest.fixture(scope="session")
def user(service: Service) -> Iterator[Browser]:
    """The seeded user, signed in: the owner of the first desk and of the seeded automation."""
    with Browser(service) as browser:
        browser.sign_in(service.seed["user"])
        yield browser


@pytest.fixture(scope="session")
def admin(service: Service) -> Iterator[Browser]:
    """The seeded member of the staff, signed in."""
    with Browser(service) as browser:
        browser.sign_in(service.seed["admin"])
        yield browser


@pytest.fixture
def bot(user: Browser) -> Iterator[Bot]:
    """A bot of the user's, without an election or a secret."""
    made = Bot(user)
    yield made
    made.remove()


def _no_answer_held_a_secret(service: Service) -> None:
    """Section 5: no answer echoes a credential or a secret; what is shown is shown once."""
    assert service.witness.shown_again() == []


def _nothing_keeps_a_secret(service: Service, server: Any) -> None:
    """Section 2: of what was shown or sent, nothing stands in tables, sessions, cache or log."""
    from tests.leaks import everything_kept  # noqa: PLC0415 - only where no service is named

    kept = everything_kept(server)
    assert service.own_desk in kept  # it was read
    assert [
        secret
        for secret in service.witness.secrets
        if any(trace in kept for trace in traces(secret))
    ] == []


def _is_named() -> bool:
    """Whether BASE_URL says which service; in the product's own suite its settings set it."""
    return bool(os.environ.get("BASE_URL")) and "tests.settings" not in sys.modules


def _seed() -> dict[str, Any]:
    given = os.environ.get("SEED_JSON", "")
    if not given:
        pytest.skip("SEED_JSON is not set: the file that manage.py seed --json printed.")
    text = given if given.lstrip().startswith("{") else Path(given).read_text()
    seed: dict[str, Any] = json.loads(text)
    return seed


def _serving(**settings: Any) -> AbstractContextManager[Any]:
    """A server of our own, where the product stands beside these tests."""
    try:
        from tests.server import serving  # noqa: PLC0415 - only where no service is named
    except ImportError:
        pytest.skip("BASE_URL is not set, and the product that could be started is not here.")
    return serving(**settings)

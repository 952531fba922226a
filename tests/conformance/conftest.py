"""The service under test: the one that BASE_URL names, or servers that the tests start."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.browser import SHOWN, Bot, Browser
from tests.conformance.client import Service
from tests.conformance.witness import traces

# The limits of the server whose limits are tested, in requests for each window.
FEW = 3
SMALL_LIMITS = {
    "LIMIT_AUTOMATION": f"{FEW}/minute",
    "LIMIT_PLATFORM": f"{FEW}/minute",
    "LIMIT_FAILURES": f"{FEW}/minute",
    "LIMIT_CHANGES": f"{FEW}/minute",
    "LIMIT_STREAMS": "1",
    "WEB_CONCURRENCY": "1",  # without Redis each process counts separately
}

# Seconds. Changes of staff need a sign-in within the last 15 minutes: the rest is for a file.
RECENT = 300

GENERATE_NOX = "/control/tokens/signingsecret/generate-nox/"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "processes: runs real processes")
    config.addinivalue_line("markers", "once: does not depend on the database")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.processes)


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    """The service under test. Without a Nox secret, unless BASE_URL names a service with one."""
    if _is_named():
        with Service(os.environ["BASE_URL"], _seed()) as named:
            yield named
            _assert_as_described(named)
            _assert_no_secret_in_responses(named)
        return
    with _serving() as server, Service(server.base_url, server.seed) as own:
        yield own
        _assert_as_described(own)
        _assert_no_secret_in_responses(own)
        _assert_no_secret_stored(own, server)


@pytest.fixture(scope="module")
def nox_service(request: pytest.FixtureRequest) -> Iterator[Service]:
    """A service that has a Nox secret."""
    if _is_named():
        given: Service = request.getfixturevalue("service")
        if "noxSecret" not in given.seed:
            pytest.skip("This service has no Nox secret: seed it with --nox.")
        yield given
        return
    with (
        _serving(WEB_CONCURRENCY="1") as server,
        Service(server.base_url, server.seed) as own,
        Browser(own) as staff,
    ):
        staff.sign_in(own.seed["admin"])
        shown = SHOWN.search(staff.post(GENERATE_NOX, {}).text)
        assert shown
        own.seed["noxSecret"] = shown.group(1)
        yield own
        _assert_as_described(own)


@pytest.fixture(scope="session")
def limited_service() -> Iterator[Service]:
    """A service with small limits."""
    yield from _limited(SMALL_LIMITS)


@pytest.fixture(scope="module")
def service_of_limited_desks() -> Iterator[Service]:
    """A service with small limits for a desk's events and reads, for pages and what is made."""
    yield from _limited(
        {
            "LIMIT_DESK": f"{FEW}/minute",
            "LIMIT_READS": f"{FEW}/minute",
            "LIMIT_LARGE_READS": "1/minute",
            "LIMIT_PAGES": f"{FEW}/minute",
            "LIMIT_MINTING": f"{FEW}/hour",
            "LIMIT_DESTINATIONS": f"{FEW}/hour",
            "LIMIT_REWINDS": f"{FEW}/hour",
            "WEB_CONCURRENCY": "1",
        }
    )


@pytest.fixture
def service_to_end() -> Iterator[Service]:
    """A service for one test, which changes it for good."""
    if _is_named():
        pytest.skip("The test would end the cards, the users and the accounts of the seed.")
    with (
        _serving(WEB_CONCURRENCY="1") as server,
        Service(server.base_url, server.seed) as own,
    ):
        yield own
        _assert_as_described(own)


@pytest.fixture(scope="module")
def service_that_delivers() -> Iterator[Service]:
    """A service that sends webhooks to endpoints on this machine."""
    if _is_named():
        pytest.skip("This service cannot reach an endpoint of the tests.")
    with (
        _serving(DELIVERY_ALLOW="127.0.0.1/32", WEB_CONCURRENCY="1") as server,
        Service(server.base_url, server.seed) as own,
    ):
        from tests.server import delivering  # noqa: PLC0415 - not available without the product

        with delivering(server):
            yield own
        assert own.comparison.messages
        _assert_as_described(own)


def _limited(limits: dict[str, str]) -> Iterator[Service]:
    if _is_named():
        pytest.skip("The limits of this service are not known.")
    with (
        _serving(**limits) as server,
        Service(server.base_url, server.seed) as own,
    ):
        yield own
        _assert_as_described(own)


@pytest.fixture(scope="session")
def signed_in(service: Service) -> Iterator[Callable[[str], Browser]]:
    """Gives a browser of somebody whom the seed names, who has signed in a short time ago."""
    browsers: dict[str, tuple[float, Browser]] = {}
    with ExitStack() as opened:

        def browser_of(who: str) -> Browser:
            at, browser = browsers.get(who, (0.0, None))
            if browser is None or time.monotonic() - at > RECENT:
                browser = opened.enter_context(Browser(service))
                browser.sign_in(service.seed[who])
                browsers[who] = time.monotonic(), browser
            return browser

        yield browser_of


@pytest.fixture(scope="module")
def user(signed_in: Callable[[str], Browser]) -> Browser:
    """A browser of the seeded user, who owns the first desk and the seeded automation."""
    return signed_in("user")


@pytest.fixture(scope="module")
def admin(signed_in: Callable[[str], Browser]) -> Browser:
    """A browser of the seeded staff user."""
    return signed_in("admin")


@pytest.fixture(scope="session")
def idle(service: Service) -> str:
    """The ``userId`` of a desk that is not connected."""
    return next(desk["userId"] for desk in service.desks() if not desk["connected"])


@pytest.fixture
def bot(user: Browser) -> Iterator[Bot]:
    """A bot of the user without an election or a secret."""
    made = Bot(user)
    yield made
    made.remove()


def _assert_as_described(service: Service) -> None:
    """Section 4: the OpenAPI document describes every answer, frame and message of the run."""
    faults = sorted(set(service.comparison.faults))
    assert not faults, "\n".join(faults)


def _assert_no_secret_in_responses(service: Service) -> None:
    """Section 5: no response repeats a credential or a secret."""
    assert service.witness.shown_again() == []


def _assert_no_secret_stored(service: Service, server: Any) -> None:
    """Section 2: no secret of the run is in the tables, sessions, cache or log."""
    from tests.leaks import dump_storage  # noqa: PLC0415 - not available without the product

    dump = dump_storage(server)
    assert service.own_desk in dump  # the dump is not empty
    assert [
        secret
        for secret in service.witness.secrets
        if any(trace in dump for trace in traces(secret))
    ] == []


def _is_named() -> bool:
    """Whether BASE_URL names a service. In the product's own test suite, the settings set it."""
    return bool(os.environ.get("BASE_URL")) and "tests.settings" not in sys.modules


def _seed() -> dict[str, Any]:
    value = os.environ.get("SEED_JSON", "")
    if not value:
        pytest.skip("SEED_JSON is not set: a file with the output of manage.py seed --json.")
    text = value if value.lstrip().startswith("{") else Path(value).read_text()
    seed: dict[str, Any] = json.loads(text)
    return seed


def _serving(**settings: Any) -> AbstractContextManager[Any]:
    """Starts a server, if the product is available."""
    try:
        from tests.server import serving  # noqa: PLC0415 - not available without the product
    except ImportError:
        pytest.skip("BASE_URL is not set, and the product is not available to start a server.")
    return serving(**settings)

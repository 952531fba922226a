"""A service and its live server, for all files that need no settings of their own."""

from collections.abc import Iterator

import pytest

from tests.server import METRICS_TOKEN, Server, serving, serving_live


@pytest.fixture(scope="session")
def web() -> Iterator[Server]:
    """Two workers, whose metrics are added up. Webhooks may lead to this machine."""
    with serving(METRICS_TOKEN=METRICS_TOKEN, DELIVERY_ALLOW="127.0.0.1/32") as server:
        yield server


@pytest.fixture(scope="session")
def live(web: Server) -> Iterator[Server]:
    """The live server beside it."""
    with serving_live(web) as server:
        yield server

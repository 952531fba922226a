"""The service behind the relays: one for the files of both, which one worker runs."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.server import Server, serving


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    with serving(WEB_CONCURRENCY="1") as server:
        yield server


@pytest.fixture(scope="package")
def bot(server: Server) -> Any:
    return server.seed["automation"]

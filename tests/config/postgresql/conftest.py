"""A PostgreSQL of the test's own, and the service on it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
import pytest
from django.db import connection

from tests.client import HOOK
from tests.drills.stage import Postgresql, needs_servers
from tests.server import Server
from tests.signals.bodies import fanout

MARKS = [
    pytest.mark.processes,
    needs_servers,
    pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no standby"),
]


@dataclass
class Service:
    postgresql: Postgresql
    server: Server
    http: httpx2.Client

    def push(self, nonce: str, server: Server | None = None) -> httpx2.Response:
        body = fanout(nonce=nonce, **self.server.seed["card"])
        url = f"{(server or self.server).base_url}{HOOK}"
        return self.http.post(url, json=body, headers=self.of("platformToken"))

    def get(self, path: str, token: str | None = None) -> httpx2.Response:
        """What the service answers at this path, to this token of its seed."""
        headers = self.of(token) if token else {}
        return self.http.get(f"{self.server.base_url}{path}", headers=headers)

    def of(self, token: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.server.seed[token]}"}

    def state(self) -> tuple[int, str]:
        """The status of ``/readyz``, and what it says of the database."""
        answer = self.get("/readyz")
        return answer.status_code, answer.json()["database"]


@pytest.fixture(scope="module")
def postgresql() -> Iterator[Postgresql]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # PostgreSQL runs as another user
        server = Postgresql(folder, folder / "log")
        server.start()
        server.execute("CREATE DATABASE signals")
        yield server
        server.stop()

"""Thousands of readers of the feed's stream, in a process of their own (``tests.bench.crowd``).

with readers_of(base_url) as readers:
    readers.open([(user_id, token), …], at_once=100)
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

PATIENCE = 600  # seconds that a command may take


class Readers:
    """The readers, from outside. Times are Unix times."""

    def __init__(self, base_url: str) -> None:
        address = urlsplit(base_url)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.crowd", str(address.hostname), str(address.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def open(self, readers: Sequence[tuple[str, str]], at_once: int) -> dict[str, Any]:
        """Opens a stream for each ``userId`` and token, so many at once, and waits for all.

        Returns the ``seconds`` and the answers' ``statuses``. Answers other than 200 are repeated.
        """
        return self._ask("open", readers=readers, at_once=at_once)

    def close_all(self) -> dict[str, Any]:
        """Closes every stream and remembers its cursor."""
        return self._ask("close_all")

    def come_back(self, events: int, at_once: int) -> dict[str, Any]:
        """Opens every stream at its cursor, and waits until each has so many events more."""
        return self._ask("come_back", events=events, at_once=at_once)

    def heard(self, position: int, readers: int, seconds: float = 30) -> dict[str, Any]:
        """Waits until so many ``readers`` have this event, or ``seconds`` are over.

        Returns their number and when the ``last`` got it.
        """
        return self._ask("heard", position=position, readers=readers, seconds=seconds)

    def report(self) -> dict[str, Any]:
        """Returns the ``open`` streams, the ``bytes``, the ``counts`` of each reader's events, and
        how many events came twice or out of order (``doubled``) or named another desk (``wrong``).
        """
        return self._ask("report")

    def end(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(PATIENCE)

    def _ask(self, command: str, **parameters: Any) -> dict[str, Any]:
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps([command, parameters]), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer, f"the process of the readers ended during {command}"
        found: dict[str, Any] = json.loads(answer)
        return found


@contextmanager
def readers_of(base_url: str) -> Iterator[Readers]:
    """Readers of this server. They leave when the block ends."""
    readers = Readers(base_url)
    try:
        yield readers
    finally:
        readers.end()

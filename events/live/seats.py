"""Seats: how many threads of this process readers may occupy, by waiting or with a stream."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from django.conf import settings

from events.live.metrics import SEATS


class Sitter(NamedTuple):
    """The owner of a seat: a token's public id or a user, and whether it is a platform token."""

    owner: str
    is_platform: bool


class Seats:
    """The seats of this process.

    An owner has ``WAITING_READERS_PER_TOKEN`` seats and a process has ``WAITING_READERS``. Desks
    can take half of them, so that customers cannot keep the engine from waiting; and one desk half
    of that half, or one seat, so that it cannot keep the others from waiting.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: Counter[Sitter] = Counter()

    def take(self, sitter: Sitter) -> bool:
        """Takes a seat. Returns False if none is free for this reader."""
        with self._lock:
            if not self._has_free_seat(sitter):
                return False
            self._taken[sitter] += 1
            SEATS.inc()
            return True

    def leave(self, sitter: Sitter) -> None:
        """Frees a seat that was taken."""
        with self._lock:
            self._taken[sitter] -= 1
            self._taken += Counter()  # removes sitters without a seat
            SEATS.dec()

    @contextmanager
    def seat(self, sitter: Sitter) -> Iterator[bool]:
        """Takes a seat while the block runs. Yields False if no seat is free for this reader."""
        taken = self.take(sitter)
        try:
            yield taken
        finally:
            if taken:
                self.leave(sitter)

    def _has_free_seat(self, sitter: Sitter) -> bool:
        own = self._taken[sitter]
        if own >= settings.WAITING_READERS_PER_TOKEN:
            return False
        if self._taken.total() >= settings.WAITING_READERS:
            return False
        if sitter.is_platform:
            return True
        of_desks = settings.WAITING_READERS // 2
        by_desks = sum(seats for who, seats in self._taken.items() if not who.is_platform)
        return by_desks < of_desks and own < max(1, of_desks // 2)


seats = Seats()

"""Who wants a session, in order, and how many may have one: an endpoint that hangs costs its own.

A subscription whose last delivery failed, or was slow, waits in a line of its own. Those get a part
of the sessions only. So however many endpoints hang, there is room for the others, and nobody waits
behind them.
"""

from collections.abc import Iterable

MOST_SESSIONS = 1500  # at a time, in one process
MOST_DOUBTFUL = 500  # of them, with endpoints that failed last or were slow
AT_ONCE = 100  # subscriptions in one lease
DOUBTFUL_AT_ONCE = 25  # more of them in the same lease


class Wanted:
    """The two lines, and which sessions are of the second one."""

    def __init__(self) -> None:
        self._well: dict[int, None] = {}
        self._doubtful: dict[int, None] = {}
        self._unwell: set[int] = set()
        self._running: dict[int, bool] = {}  # whether it is doubtful

    def add(self, ids: Iterable[int]) -> None:
        """Adds subscriptions to their lines. One that waits already keeps its place."""
        for pk in ids:
            line = self._doubtful if pk in self._unwell else self._well
            line.setdefault(pk)

    def take(self) -> list[int]:
        """The next ones for which there is room. Call ``start`` for those that are leased."""
        room = MOST_SESSIONS - len(self._running)
        ids = _first(self._well, min(room, AT_ONCE))
        doubtful = MOST_DOUBTFUL - sum(self._running.values())
        ids += _first(self._doubtful, min(room - len(ids), doubtful, DOUBTFUL_AT_ONCE))
        return ids

    def start(self, pk: int) -> None:
        self._running[pk] = pk in self._unwell

    def end(self, pk: int, *, is_well: bool) -> None:
        """The session is over. The subscription may be wanted again."""
        self._running.pop(pk, None)
        self.is_known(pk, is_well=is_well)

    def is_known(self, pk: int, *, is_well: bool) -> None:
        """Remembers to which line the subscription belongs from now on."""
        if is_well:
            self._unwell.discard(pk)
        else:
            self._unwell.add(pk)
            if pk in self._well:
                del self._well[pk]
                self._doubtful.setdefault(pk)


def _first(line: dict[int, None], count: int) -> list[int]:
    """Takes so many from the beginning of the line."""
    ids = [pk for pk, _ in zip(line, range(max(0, count)), strict=False)]
    for pk in ids:
        del line[pk]
    return ids

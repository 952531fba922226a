"""Samples how often the log's lock is held, by what, and how many writers wait for it."""

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from statistics import fmean

from tests.bench import growth
from tests.bench.load import Load
from tests.server import Server

POLL_INTERVAL = 0.005  # seconds
# A transaction with an id that waits for no lock holds the log's lock: nothing else writes.
LOOK = """
SELECT count(*) FILTER (WHERE holds),
       count(*) FILTER (WHERE holds AND state = 'idle in transaction'),
       count(*) FILTER (WHERE holds AND wait_event_type IN ('IO', 'LWLock')),
       count(*) FILTER (WHERE waits)
FROM (SELECT state, wait_event_type, wait_event_type = 'Lock' AS waits,
             backend_xid IS NOT NULL AND wait_event_type IS DISTINCT FROM 'Lock' AS holds
      FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()) AS seen
"""


@dataclass(frozen=True, slots=True)
class Held:
    """How long the lock is held, as shares of the time: in all, by Python, by the disk."""

    share: float
    by_python: float
    by_disk: float
    waiting: float

    def __str__(self) -> str:
        return (
            f"lock held {self.share:.0%} of the time ({self.by_python:.0%} by Python, "
            f"{self.by_disk:.0%} by the disk), {self.waiting:.1f} wait for it"
        )


def watch(server: Server, load: Load, seconds: int) -> Held:
    """Samples the lock while the load runs."""
    seen = []
    with growth.connect(server) as connection, ThreadPoolExecutor(1) as threads:
        going_on = threads.submit(load.measure, seconds)
        while not wait([going_on], timeout=POLL_INTERVAL).done:
            seen += connection.execute(LOOK).fetchall()
        going_on.result()
    held, by_python, by_disk, waiting = (fmean(column) for column in zip(*seen, strict=True))
    return Held(min(held, 1), by_python, by_disk, waiting)

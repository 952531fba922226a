"""Causes many faults under load (``make drills``). Takes five minutes and starts its own servers.

Prints a table and writes it into SECURITY.md. Fails if anything accepted was lost, done twice or
half done, if a 503 took longer than 2 seconds, besides the seconds that a reader asked to wait, if
the service took longer than 5 to recover, or if no signals shared a turn at the log.
"""

import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from tests.drills import faults  # noqa: E402 - what signs for the clients is the product's own
from tests.drills.drill import drill  # noqa: E402
from tests.drills.stage import MISSING, Stage, stage  # noqa: E402
from tests.drills.table import write  # noqa: E402

BEGIN = "<!-- make drills writes this table -->\n"

# Each fault, how often it is caused, and the seconds between two.
ALL = (
    (faults.a_worker_is_killed, 15, 2.0),
    (faults.the_arbiter_is_killed, 5, 0.5),
    (faults.the_server_is_reloaded, 3, 1.0),
    (faults.the_server_is_stopped, 3, 1.0),
    (faults.postgresql_is_down, 5, 1.0),
    (faults.connections_are_cut, 10, 0.5),
    (faults.the_disk_is_full, 2, 1.0),
    (faults.redis_is_down, 3, 1.0),
    (faults.redis_hangs, 2, 1.0),
    (faults.clients_hang_up, 5, 0.5),
    (faults.the_machine_is_busy, 2, 1.0),
)
# After these faults the outage is as long as gunicorn takes to start.
STARTED_ANEW = ("the arbiter is killed", "the server is stopped")
COLUMNS = {
    "fault": "fault",
    "times": "times",
    "answers": "answers",
    "unanswered": "broken connections",
    "accepted": "accepted",
    "again": "answered on retry",
    "shared": "turns with several signals",
    "lost": "lost",
    "twice": "done twice",
    "half": "incomplete",
    "slowest_503": "slowest 503, s",
    "outage": "longest outage after, s",
}


def main() -> int:
    if MISSING:
        sys.exit(f"The drills need {', '.join(MISSING)}.")
    with stage(customers=3, away=5, like_a_disk=True) as staged:
        rows = list(_rows(staged))
    titles = COLUMNS.items()
    write(BEGIN, [{title: getattr(row, name) for name, title in titles} for row in rows])
    slow = any(row.slow() for row in rows if row.fault not in STARTED_ANEW)
    return int(slow or any(row.wrong() for row in rows) or not any(row.shared for row in rows))


def _rows(staged: Stage):
    for fault, times, pause in ALL:
        if fault is faults.the_disk_is_full and staged.disk is None:
            print("Not run: the disk is full, because mounting is not permitted.")
            continue
        row = drill(staged, fault.__name__.replace("_", " "), [fault] * times, pause=pause)
        text = f"{row.fault}, {row.times} times: {row.wrong() + row.slow() or 'well'}"
        print(text, file=sys.stderr, flush=True)
        yield row


if __name__ == "__main__":
    sys.exit(main())

"""How gunicorn serves: each number with its reason. HOST, PORT and the rest are in .env.example."""

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured

# gunicorn reads this file before it puts the project on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

try:
    from config.environment import env, number
    from config.settings import DATABASES, LOG_LEVEL, METRICS_TOKEN, THREADS
except ImproperlyConfigured as fault:
    sys.exit(f"The settings are not right: {fault}")

wsgi_app = "config.wsgi:application"
bind = f"{env.str('HOST', default='127.0.0.1')}:{number('PORT', default=8000, least=1)}"

# Threads, since a request mostly waits: for the database, or as a reader of the feed for news.
worker_class = "config.worker.Worker"
threads = THREADS

# A process for each core, since one runs Python on one core only; at least two, so that one that
# hangs is not the service. At most four by default: each may open THREADS + 1 connections, and
# PostgreSQL takes 100 unless it was told otherwise. SQLite has one writer at a time: two do.
cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
most = 2 if "sqlite" in DATABASES["default"]["ENGINE"] else 4
workers = number("WEB_CONCURRENCY", default=max(2, min(cores, most)), least=1)

# Each worker has its own connections and watcher: nothing of that may be shared by a fork.
preload_app = False

# Connections of one worker, idle ones included: they cost a file descriptor each, not a thread.
worker_connections = 1000
# Waiting for a worker to take them: bursts above this are refused by the kernel at once.
backlog = 2048

# Longer than the usual proxy keeps its side open (60 s), so that no request meets a closing door.
keepalive = 75
# A worker whose main loop says nothing for so long is ended; requests in threads do not count.
timeout = 30
# The longest answer is a reader's wait of 25 s; who stops the service lets it finish.
graceful_timeout = 30

# The longest path is a feed's with every filter, far under this; what is longer gets a 414.
limit_request_line = 4094
# Browsers and proxies send about 30 headers; five signatures take 350 bytes.
limit_request_fields = 64
limit_request_field_size = 8190

# Static files are small; sent the common way, a client that does not take them is given up.
sendfile = False

# Which proxies are believed is decided in one place, by TRUSTED_PROXIES: here none is.
forwarded_allow_ips = ""
# A header with an underscore could pass for another one.
header_map = "drop"

# Each request would be a line with a path; what happened is in the log of the service itself.
accesslog = None
errorlog = "-"
logger_class = "config.logs.GunicornLogger"
loglevel = LOG_LEVEL
# Nobody steers a running service but by signals: no socket for it under somebody's home.
control_socket_disable = True
# The heartbeat of the workers is a file: on a busy disk it would stall them.
MEMORY = "/dev/shm"  # noqa: S108 - in memory, and made with a name of its own  # nosec B108
worker_tmp_dir = MEMORY if Path(MEMORY).is_dir() else None

# The numbers of all workers stand in files of a folder, which whichever of them is asked adds up.
NUMBERS = "PROMETHEUS_MULTIPROC_DIR"
OURS = f"signals-metrics-{os.getpid()}-"  # a new master, as of an upgrade, has a folder of its own
if METRICS_TOKEN and OURS not in os.environ.get(NUMBERS, ""):
    os.environ[NUMBERS] = tempfile.mkdtemp(prefix=OURS, dir=worker_tmp_dir)

from prometheus_client.multiprocess import mark_process_dead  # noqa: E402 - it reads the folder


def child_exit(server: Any, worker: Any) -> None:
    """A worker that is gone has no waiting readers; what it counted stays counted."""
    if METRICS_TOKEN:
        mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]


def on_exit(server: Any) -> None:
    if METRICS_TOKEN:
        shutil.rmtree(os.environ[NUMBERS], ignore_errors=True)

"""Settings of gunicorn, each with its reason. .env.example describes HOST, PORT and the others."""

import os
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured
from gunicorn.arbiter import Arbiter
from gunicorn.workers.base import Worker

# gunicorn reads this file before it puts the project on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

# Files that the service writes, such as an SQLite database, are readable by this user only.
os.umask(0o077)

INVALID = "Invalid settings"

from config.server import metrics_folder, request_heads  # noqa: E402 - on the path since now
from config.server.worker import hold_stops, release_stops  # noqa: E402

try:
    from config import settings
    from config.environment import host_and_port, refuse_public
except ImproperlyConfigured as fault:
    sys.exit(f"{INVALID}: {fault}")

wsgi_app = "config.wsgi:application"
bind = host_and_port(settings.HOST, settings.PORT)

# Threads, because a request mostly waits: for the database, or for new events of the feed.
worker_class = "config.server.worker.Worker"
threads = settings.THREADS

workers = settings.WEB_CONCURRENCY

os.register_at_fork(before=hold_stops, after_in_parent=release_stops)

# Each worker has its own database connections and hub (events/live/). A fork must not share them.
preload_app = False

# Connections per worker, including idle ones. Each costs a file descriptor, not a thread.
worker_connections = 1000
# Connections that wait for a worker. The kernel refuses more than this at once.
backlog = 2048

# Longer than a proxy's usual keep-alive (60 s), so that no request meets a closed connection.
keepalive = 75
# A worker whose main loop is silent for this long is killed. Requests run in threads, not there.
timeout = 30
# A stop ends streams and waiting readers within 4 s (config/server/worker.py). Other requests have
# this time to finish.
graceful_timeout = 30

globals().update(request_heads.SETTINGS)

# gunicorn would log paths, which may hold secrets. The service logs its own requests.
accesslog = None
errorlog = "-"
logger_class = "config.logging_setup.GunicornLogger"
loglevel = settings.LOG_LEVEL
# A running service is controlled by Unix signals only. No control socket.
control_socket_disable = True
# The workers' heartbeat is a file. On a busy disk it would stall them.
MEMORY = "/dev/shm"  # noqa: S108 - in memory, with a unique name  # nosec B108
worker_tmp_dir = MEMORY if Path(MEMORY).is_dir() else None

# All workers write their metrics to files of one folder. The worker that is asked adds them up.
if settings.METRICS_TOKEN:
    memory = os.environ.get("RUNTIME_DIRECTORY") or worker_tmp_dir or tempfile.gettempdir()
    metrics_folder.prepare(memory)


def on_starting(server: Arbiter) -> None:
    """Refuses to listen on a public address without a proxy, which absorbs slow clients.

    Checks the addresses after gunicorn's own options, which override HOST.
    """
    hosts = [
        at[0] if isinstance(at, tuple) else "unknown"
        for at in server.cfg.address
        if not isinstance(at, str)  # the path of a Unix socket
    ]
    try:
        refuse_public(hosts, settings.TRUSTED_PROXIES)
    except ImproperlyConfigured as fault:
        sys.exit(f"{INVALID}: {fault}")


def when_ready(server: Arbiter) -> None:
    """Says the address for a browser: gunicorn logs the one at which it listens.

    Behind a proxy the first worker that is ready listens (config/server/worker.py). Connections are
    refused until then, so that the proxy asks another server. A browser would not: it waits.
    """
    if settings.TRUSTED_PROXIES:
        for listener in server.LISTENERS:
            if not isinstance(listener.getsockname(), str):  # the path of a Unix socket
                with suppress(OSError):  # only Linux can
                    listener.shutdown(socket.SHUT_RD)
    if settings.REQUIRE_HTTPS:
        text = (
            f"Serving {settings.BASE_URL} behind a proxy that adds HTTPS. To look at it on this "
            f"machine: REQUIRE_HTTPS=off BASE_URL=http://localhost:{settings.PORT} make serve"
        )
    else:
        text = f"Serving {settings.BASE_URL}"
    if sys.stdout.isatty():
        print(text, flush=True)
    else:
        server.log.info(text)


def child_exit(server: Arbiter, worker: Worker) -> None:
    if settings.METRICS_TOKEN:
        metrics_folder.end_of(worker)


def on_exit(server: Arbiter) -> None:
    if settings.METRICS_TOKEN:
        metrics_folder.remove()

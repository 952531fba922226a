"""Lets the service of a test wait as long as a busy machine needs.

The service gives up what it waits for within a second or two: the log's lock, a connection, Redis,
a place to check a password. On a busy machine a process may stand still for longer, and the service
would rightly refuse what a test expects. So the suite's settings name this app. A test of one of
these limits sets it, or takes all of them back with ``limits_of_the_service``. Drills and
benchmarks keep them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from django.apps import AppConfig
from django.db import connection

LIMIT = 60  # seconds
APP = "tests.patience.Patience"

# Of connections to PostgreSQL. 0 is the system's own, of many minutes.
OPTIONS: dict[str, Any] = {
    "options": f"-c lock_timeout={LIMIT}s -c statement_timeout={10 * LIMIT}s "
    f"-c idle_in_transaction_session_timeout={10 * LIMIT}s -c jit=off -c random_page_cost=1.1",
    "connect_timeout": LIMIT,
    "tcp_user_timeout": 0,
}

# The service's own.
_timeouts: dict[tuple[ModuleType, str], float] = {}  # by module and name
_options: dict[str, Any] = {}  # of connections to PostgreSQL


class Patience(AppConfig):
    """Replaces the limits of waits within a process."""

    name = "tests"  # so that the commands in tests/management are the suite's

    def ready(self) -> None:
        from config.accounts import hashing  # noqa: PLC0415 - once the apps are ready
        from events import confirmation, replica, writer_queue  # noqa: PLC0415
        from events.http import rate_limits  # noqa: PLC0415
        from events.live import hub  # noqa: PLC0415
        from signals.intake import group_commit  # noqa: PLC0415

        modules = (confirmation, replica, writer_queue, group_commit, rate_limits, hashing)
        for module, name in (*((each, "TIMEOUT") for each in modules), (hub, "STARTING")):
            _timeouts[module, name] = getattr(module, name)
            setattr(module, name, LIMIT)


@contextmanager
def limits_of_the_service() -> Iterator[None]:
    """The service's own limits in this process until the block ends. Opens a new connection."""
    for (module, name), own in _timeouts.items():
        setattr(module, name, own)
    _reconnect_with(_options)
    try:
        yield
    finally:
        for module, name in _timeouts:
            setattr(module, name, LIMIT)
        _reconnect_with(OPTIONS)


def _reconnect_with(options: dict[str, Any]) -> None:
    connection.close()
    if connection.vendor == "postgresql":
        connection.settings_dict["OPTIONS"].update(options)


def lengthen(database: Any, cache: Any) -> None:
    """Replaces the limits in the settings of a database and of a cache."""
    options = database["OPTIONS"]
    if "sqlite" in database["ENGINE"]:
        options["timeout"] = LIMIT
    else:
        _options.update({name: options[name] for name in OPTIONS})
        options.update(OPTIONS)
        options.get("pool", {})["timeout"] = LIMIT
    for name in {"socket_timeout", "socket_connect_timeout"} & cache.get("OPTIONS", {}).keys():
        cache["OPTIONS"][name] = LIMIT

"""Which standby of the database may be read: it is asked once a second, and so is its Patroni.

Patroni says whether a standby is in the quorum. PostgreSQL alone does not know: a standby outside
of the quorum may show what no promotion keeps, and so may a primary that was cut off, once it has
started as a standby. Patroni counts that one to the quorum until the next primary has looked: it
does not stream before it is rewound.

The standby says how far it has replayed the write-ahead log, and the primary how long that is. A
standby is read while it has all that the primary had a few seconds ago: revoked tokens, too.
"""

import json
import logging
import threading
import time
from typing import Any, NamedTuple

import httpx2
import psycopg
from django.db import DEFAULT_DB_ALIAS, Error, connections

from config.environment import host_and_port
from events.databases import PRIMARY
from events.unavailable_reasons import Wait
from events.writer_queue import WaitEnded

logger = logging.getLogger(__name__)

IN_QUORUM = "/quorum"
STREAMS = "streaming"
ASKING_INTERVAL = 1.0  # seconds
TIMEOUT = 2.0  # seconds, for an answer of Patroni
LASTING = 5.0  # seconds for which an answer counts, from the question
MOST_BEHIND = 5.0  # seconds that a standby may be behind the primary
MOST_BYTES = 16 * 1024  # of an answer; Patroni's are smaller
NEVER = float("-inf")

# Which database this is, and how far its server has come. A standby of another cluster, or another
# database of the same one, is told from a copy of the primary's.
_POSITION = """SELECT concat(system_identifier, '/', oid), coalesce(pg_wal_lsn_diff({}, '0/0'), -1)
FROM pg_control_system(), pg_database WHERE datname = current_database()"""
WRITTEN = _POSITION.format("pg_current_wal_flush_lsn()")
REPLAYED = _POSITION.format("pg_last_wal_replay_lsn()")


class Node(NamedTuple):
    """A PostgreSQL. Patroni answers at the same host."""

    host: str
    port: str

    @property
    def options(self) -> dict[str, Any]:
        """The options of a connection to it."""
        return {"host": self.host, "port": self.port, "target_session_attrs": "any"}


class Mark(NamedTuple):
    """How long the write-ahead log of the primary was, at this time of the monotonic clock."""

    at: float
    database: str
    length: int


class Nodes:
    """The nodes of the database, in the order of preference. One is read at a time."""

    def __init__(self) -> None:
        self._until: dict[Node, float] = {}  # until when each may be read, on the monotonic clock
        self._current: Node | None = None
        self._marks: tuple[Mark, ...] = ()  # the last ones, of ``MOST_BEHIND`` seconds

    def watch(self, hosts: str, ports: str, patroni: int) -> None:
        """Asks the primary, each node and its Patroni from now on, in a thread for each node.

        ``hosts``, and their PostgreSQL's ``ports``, are separated by commas. ``patroni`` is its
        port at all of them.
        """
        threading.Thread(target=self._watch_primary, daemon=True).start()
        for node in map(Node, hosts.split(","), str(ports).split(",")):
            self._until[node] = 0.0
            threading.Thread(target=self._watch, args=(node, patroni), daemon=True).start()

    def reads(self, node: Node) -> bool:
        """Whether this is the node to read."""
        return self._find() == node

    def current(self) -> Node:
        """The node to read: the same one as long as it may be read.

        Raises ``WaitEnded`` if none may be read.
        """
        node = self._find()
        if node is None:
            raise WaitEnded(Wait.REPLICA)
        return node

    def _find(self) -> Node | None:
        now, current = time.monotonic(), self._current
        if current is None or self._until[current] <= now:
            current = next((node for node, until in self._until.items() if until > now), None)
            if current != self._current:
                self._current = current
                logger.warning("The node that is read is now: %s", current)
        return current

    def _watch_primary(self) -> None:
        while True:
            at = time.monotonic()
            try:
                with connections[PRIMARY].cursor() as cursor:
                    cursor.execute(WRITTEN)
                    kept = [mark for mark in self._marks if mark.at > at - MOST_BEHIND]
                    self._marks = (*kept, Mark(at, *cursor.fetchone()))
            except Error:  # its last marks count until their time is over
                connections.close_all()
            time.sleep(ASKING_INTERVAL)

    def _watch(self, node: Node, port: int) -> None:
        url = f"http://{host_and_port(node.host, port)}{IN_QUORUM}"
        database: psycopg.Connection[Any] | None = None
        with httpx2.Client(timeout=TIMEOUT, trust_env=False) as client:
            while True:
                asked = time.monotonic()
                try:
                    if _is_in_quorum(client, url):
                        database = database or _connect(node)
                        until = self._as_of(database) + MOST_BEHIND
                        self._until[node] = min(asked + LASTING, until)
                    else:
                        self._until[node] = 0.0
                except (httpx2.HTTPError, httpx2.InvalidURL, psycopg.Error):
                    # What was found before counts until its time is over.
                    if database is not None:
                        database.close()
                    database = None
                time.sleep(ASKING_INTERVAL)

    def _as_of(self, standby: psycopg.Connection[Any]) -> float:
        """The last known time at which the primary had nothing that this standby lacks.

        ``NEVER`` if it is too far behind, no standby, or has another database.
        """
        database, replayed = standby.execute(REPLAYED).fetchone() or ("", -1)
        times = [
            mark.at for mark in self._marks if mark.database == database and mark.length <= replayed
        ]
        return max(times, default=NEVER)


def _is_in_quorum(client: httpx2.Client, url: str) -> bool:
    """Whether Patroni says that its node is in the quorum and streams. Another answer is a no."""
    with client.stream("GET", url) as answer:
        body = next(answer.iter_raw(MOST_BYTES), b"")
    try:
        state = json.loads(body)
    except (ValueError, RecursionError):
        return False
    streams = isinstance(state, dict) and state.get("replication_state") == STREAMS
    return answer.status_code == 200 and streams


def _connect(node: Node) -> psycopg.Connection[Any]:
    options = connections[DEFAULT_DB_ALIAS].get_connection_params() | node.options
    return psycopg.connect(**options, autocommit=True)


nodes = Nodes()

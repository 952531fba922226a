"""Which standby of the database may be read: Patroni says it of each, once a second.

PostgreSQL alone does not know. A standby outside of the quorum may show what no promotion keeps,
and so may a primary that was cut off, once it has started as a standby. Patroni counts that one to
the quorum until the next primary has looked: it does not stream before it is rewound.
"""

import logging
import threading
import time
from typing import NamedTuple

import httpx2

from events.unavailable_reasons import Wait
from events.writer_queue import WaitEnded

logger = logging.getLogger(__name__)

IN_QUORUM = "/quorum"
STREAMS = "streaming"
ASKING_INTERVAL = 1.0  # seconds
TIMEOUT = 2.0  # seconds, for an answer
LASTING = 5.0  # seconds from the question for which an answer counts


class Node(NamedTuple):
    """A PostgreSQL. Patroni answers at the same host."""

    host: str
    port: str


class Nodes:
    """The nodes of the database, in the order of preference. One is read at a time."""

    def __init__(self) -> None:
        self._until: dict[Node, float] = {}  # until when each may be read, on the monotonic clock
        self._current: Node | None = None

    def watch(self, hosts: str, ports: str, patroni: int) -> None:
        """Asks Patroni at each host from now on, in a thread for each.

        ``hosts``, and their PostgreSQL's ``ports``, are separated by commas. ``patroni`` is its
        port at all of them.
        """
        for node in map(Node, hosts.split(","), str(ports).split(",")):
            self._until[node] = 0.0
            threading.Thread(target=self._ask, args=(node, patroni), daemon=True).start()

    def current(self) -> Node:
        """The node to read: the same one as long as it may be read.

        Raises ``WaitEnded`` if none may be read.
        """
        now, current = time.monotonic(), self._current
        if current is None or self._until[current] <= now:
            current = next((node for node, until in self._until.items() if until > now), None)
            if current != self._current:
                self._current = current
                logger.warning("The node that is read is now: %s", current)
        if current is None:
            raise WaitEnded(Wait.REPLICA)
        return current

    def _ask(self, node: Node, port: int) -> None:
        host = f"[{node.host}]" if ":" in node.host else node.host
        with httpx2.Client(timeout=TIMEOUT, trust_env=False) as client:
            while True:
                asked = time.monotonic()
                try:
                    answer = client.get(f"http://{host}:{port}{IN_QUORUM}")
                    streams = answer.json().get("replication_state") == STREAMS
                    may_be_read = answer.status_code == 200 and streams
                    self._until[node] = asked + LASTING if may_be_read else 0.0
                except (httpx2.HTTPError, ValueError):
                    pass  # the last answer counts until its time is over
                time.sleep(ASKING_INTERVAL)


nodes = Nodes()

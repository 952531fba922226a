"""Which node of the database may be read: Patroni says it of each, once a second.

PostgreSQL alone does not know. A standby outside of the quorum may show what no promotion keeps,
and so may a primary that was cut off, once it has started as a standby. ``/read-only-quorum``
answers 200 at a standby of the quorum and at the primary that holds the leader's lock.
"""

import logging
import threading
import time
from collections.abc import Mapping
from typing import NamedTuple

import httpx2

from events.unavailable_reasons import Wait
from events.writer_queue import WaitEnded

logger = logging.getLogger(__name__)

MAY_BE_READ = "/read-only-quorum"
ASKING_INTERVAL = 1.0  # seconds
TIMEOUT = 2.0  # seconds, for an answer
LASTING = 5.0  # seconds from the question for which an answer counts


class Node(NamedTuple):
    host: str
    port: int


class Answer(NamedTuple):
    """Until when a node may be read, on the monotonic clock, and whether it is a standby."""

    until: float = 0.0
    is_standby: bool = False


class Nodes:
    """The nodes of the database, in the order of preference. One is read at a time."""

    def __init__(self) -> None:
        self._answers: dict[Node, Answer] = {}
        self._current: Node | None = None

    def watch(self, addresses: Mapping[Node, str]) -> None:
        """Asks the Patroni of each node at its address from now on, in a thread for each."""
        self._answers = dict.fromkeys(addresses, Answer())
        for node, address in addresses.items():
            threading.Thread(target=self._ask, args=(node, address), daemon=True).start()

    def current(self) -> Node:
        """The node to read: a standby if any may be read, and the same one as long as it may.

        Raises ``WaitEnded`` if none may be read.
        """
        now = time.monotonic()
        found = {node: answer for node, answer in self._answers.items() if answer.until > now}
        readable = [node for node, answer in found.items() if answer.is_standby] or [*found]
        current = self._current
        if current not in readable:
            current = next(iter(readable), None)
        if current != self._current:
            self._current = current
            logger.warning("The node that is read is now: %s", current)
        if current is None:
            raise WaitEnded(Wait.REPLICA)
        return current

    def _ask(self, node: Node, address: str) -> None:
        with httpx2.Client(base_url=address, timeout=TIMEOUT, trust_env=False) as client:
            while True:
                asked = time.monotonic()
                try:
                    answer = client.get(MAY_BE_READ)
                    role = answer.json().get("role") if answer.status_code == 200 else None
                except (httpx2.HTTPError, ValueError):
                    pass  # the last answer counts until its time is over
                else:
                    self._answers[node] = Answer(asked + LASTING * bool(role), role == "replica")
                time.sleep(ASKING_INTERVAL)


nodes = Nodes()

"""Limits how many refusals of one sender are recorded in the log (contract, section 4).

Each process counts in memory, because the count is needed under the log's lock. When the limit's
window has passed, a timer writes one event with the number of suppressed refusals. The end of the
process writes it too. A process that is killed loses the number.
"""

import atexit
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from django.conf import settings
from django.db import Error, connection
from limits import parse

from events import log
from events.actors import SYSTEM, Actor
from events.http.limits import OFF
from events.kinds import Kind

logger = logging.getLogger(__name__)

SUPPRESSED = "refusals_suppressed"  # the code of the event with the number of suppressed refusals
MAX_SENDERS = 10_000  # beyond that, new senders share one allowance
MAX_EVENTS_PER_TURN = 50  # bounds how long one turn holds the log's lock


class Sender(NamedTuple):
    """Whose refusals are counted together: one credential's, or all unsigned ones of one desk.

    ``user_id`` is the desk that sees the number of suppressed refusals. If it is None, only the
    platform sees it.
    """

    actor: Actor | None
    user_id: str | None
    bot_id: str | None


OVERFLOW_SENDER = Sender(None, None, None)


@dataclass(slots=True)
class Window:
    """The counts of one sender since ``started``, a Unix time."""

    started: float
    recorded: int = 0
    suppressed: int = 0


class Allowances:
    """The allowances of all senders. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._windows: dict[Sender, Window] = {}
        self._timer: threading.Timer | None = None
        self._registered_at_exit = False

    def take(self, sender: Sender) -> bool:
        """Returns whether to record one more refusal of this sender, or counts it as suppressed."""
        if settings.LIMITS["refusals"] == OFF:
            return True
        limit = parse(settings.LIMITS["refusals"])
        with self._lock:
            window = self._window(sender, time.time(), limit.get_expiry())
            if window.recorded < limit.amount:
                window.recorded += 1
                return True
            window.suppressed += 1
            self._start_timer(limit.get_expiry())
            return False

    def record_suppressed(self) -> None:
        """Writes one event for each sender with suppressed refusals.

        If it raises a database error, the counts are kept and the timer tries again.
        """
        while suppressed := self._collect(MAX_EVENTS_PER_TURN):
            try:
                _write(suppressed)
            except Error:
                self._put_back(suppressed)
                raise

    def clear(self) -> None:
        """Drops all counts without recording them."""
        with self._lock:
            self._windows.clear()
            self._stop_timer()

    def _window(self, sender: Sender, now: float, seconds: int) -> Window:
        if sender not in self._windows and len(self._windows) >= MAX_SENDERS:
            self._drop_expired(now, seconds)
        if sender not in self._windows and len(self._windows) >= MAX_SENDERS:
            sender = OVERFLOW_SENDER
        window = self._windows.setdefault(sender, Window(now))
        if _is_expired(window, now, seconds):
            window.started, window.recorded = now, 0
        return window

    def _drop_expired(self, now: float, seconds: int) -> None:
        self._windows = {
            sender: window
            for sender, window in self._windows.items()
            if window.suppressed or not _is_expired(window, now, seconds)
        }

    def _collect(self, max_senders: int) -> dict[Sender, int]:
        """Takes the counts of suppressed refusals of at most ``max_senders``, and resets them."""
        with self._lock:
            windows = (item for item in self._windows.items() if item[1].suppressed)
            taken = dict(islice(windows, max_senders))
            suppressed = {sender: window.suppressed for sender, window in taken.items()}
            for window in taken.values():
                window.suppressed = 0
        return suppressed

    def _put_back(self, suppressed: Mapping[Sender, int]) -> None:
        seconds = parse(settings.LIMITS["refusals"]).get_expiry()
        with self._lock:
            for sender, number in suppressed.items():
                self._windows.setdefault(sender, Window(time.time())).suppressed += number
            self._start_timer(seconds)

    def _start_timer(self, seconds: int) -> None:
        """Starts the timer unless it runs. Also registers the recording at exit."""
        if self._timer is None:
            self._timer = threading.Timer(seconds, self._record_by_timer)
            self._timer.daemon = True
            self._timer.start()
        if not self._registered_at_exit:
            atexit.register(self._record_at_exit)
            self._registered_at_exit = True

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _record_by_timer(self) -> None:
        with self._lock:
            self._timer = None
        try:
            self.record_suppressed()
        except Error:
            logger.warning("Could not record the suppressed refusals. Trying again later.")
        finally:
            connection.close()

    def _record_at_exit(self) -> None:
        with self._lock:
            self._stop_timer()
        try:
            self.record_suppressed()
        except Error:
            logger.warning("Could not record the suppressed refusals.")
        finally:
            with self._lock:
                self._stop_timer()


allowances = Allowances()


def _is_expired(window: Window, now: float, seconds: int) -> bool:
    return not 0 <= now - window.started < seconds  # also if the clock was set back


def _write(suppressed: Mapping[Sender, int]) -> None:
    with log.turn(actor=SYSTEM) as turn:
        for sender, number in suppressed.items():
            turn.append(
                Kind.SIGNAL_REFUSED,
                topic=sender.user_id,
                data={
                    "code": SUPPRESSED,
                    "source": None,
                    "sent": {"pair": None, "direction": None},
                    "elected": None,
                    "botId": sender.bot_id,
                    "suppressed": number,
                },
                platform_data={"sender": sender.actor and sender.actor.to_dict()},
            )

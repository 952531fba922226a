"""The hub: reads each new event once a process, and hands it to everybody who sees it.

One thread polls the head of the log while anybody reads, and a little longer. It applies events
singly, in the order of their positions. An event costs as much as it has readers; nobody else is
touched. If the database fails, the readers stay, and the hub goes on from its position.
"""

import logging
import threading
import time

from django.db import DatabaseError, OperationalError, connection
from django.utils import timezone

from events.feed import read_head
from events.http.refusals import Unavailable
from events.live import metrics
from events.live.frames import EndReason
from events.live.readers import Reader, Rule, Topic
from events.live.recent import LiveEvent, Missed, Recent, read_after, recall
from events.live.roster import Roster
from events.models import Event, Head
from events.waits import Wait

logger = logging.getLogger(__name__)

POLL_INTERVAL = 0.05  # seconds between two queries of the head
QUIET_INTERVAL = 0.1  # the same while nobody reads and nothing comes
RETRY_INTERVAL = 0.5  # seconds, while the database is down
STARTING = 5  # seconds that a reader waits for the first query
REST = 3  # seconds without use after which the thread ends
CHECK_INTERVAL = 4  # seconds between two checks of all credentials


class Hub:
    """The readers of this process. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._moved = threading.Condition(self._lock)  # the position, or the thread's state
        self._thread: threading.Thread | None = None
        self._is_ready = False
        self._waiting = 0
        self._roster = Roster()
        self._rules: set[Rule] = set()
        self._recent = Recent(0)
        self._checked_at = 0.0
        self._rests_at = 0.0
        self.epoch = ""

    @property
    def position(self) -> int:
        """How far it has applied the log."""
        return self._recent.end

    @property
    def readers(self) -> int:
        """The number of admitted readers."""
        return self._roster.admitted

    def admit(self, reader: Reader) -> None:
        """Takes a reader in. From now on it ends with its credential.

        Raises ``RateLimited`` beyond ``LIMIT_STREAMS``, ``Unavailable`` during a stop, and
        ``OperationalError`` if the log cannot be read.
        """
        with self._lock:
            if self.is_stopping:
                raise Unavailable(Wait.READERS)
            self._roster.add(reader)
            self._rules.add(reader.view.rule)
            self._start()
            if not self._moved.wait_for(lambda: self._is_ready or not self._thread, STARTING):
                logger.warning("The hub did not read the log in time.")
            if not self._is_ready:
                self.dismiss(reader)
                raise OperationalError("The log cannot be read.")
            since = self._recent.since(reader.view.since, self.epoch)
        # The hub may have applied the end of the credential before it knew the reader.
        if reader.view.credential.has_ended(since):
            with self._lock:
                self._roster.end([reader])

    @property
    def head(self) -> Head | None:
        """The head of the log a moment ago. None: not known."""
        with self._lock:
            return Head(position=self.position, epoch=self.epoch) if self._is_ready else None

    def reaches(self, position: int) -> bool:
        """Whether the hub still has every event after this position."""
        return self._recent.reaches(position)

    def attach(self, reader: Reader, position: int, topics: tuple[Topic, ...]) -> Missed | None:
        """Delivers to the reader what comes after ``position``, where it sees ``topics``.

        If that is too much at once, returns its first part and delivers nothing. Returns None if
        the hub no longer has every event after that position: the reader must first read on in the
        log. A reader that has ended meanwhile gets nothing.
        """
        with self._lock:
            if not self._recent.reaches(position):
                return None
            missed = self._recent.missed(reader.view, position, topics)
            if missed.is_all and self.knows(reader):
                reader.position = position
                self._roster.topics.show(reader, missed.topics)
                for live in missed.events:
                    live.give_to(reader)
            return missed

    def dismiss(self, reader: Reader) -> None:
        """Forgets a reader. Does nothing if the hub does not know it."""
        with self._lock:
            self._roster.remove(reader)

    @property
    def is_stopping(self) -> bool:
        return self._roster.stops_at is not None

    def knows(self, reader: Reader) -> bool:
        """Whether the reader is admitted, and neither ended nor dismissed."""
        return self._roster.knows(reader)

    def wait_beyond(self, position: int, seconds: float) -> int:
        """Waits until the head is beyond ``position``, or ``seconds`` passed; returns the head.

        Holds no database connection. If the log cannot be read, it waits, and returns ``position``.
        """
        with self._lock:
            self._waiting += 1
            self._start()
            try:
                self._moved.wait_for(lambda: self._is_ready and self.position > position, seconds)
                return self.position if self._is_ready else position
            finally:
                self._waiting -= 1

    def stop(self, seconds: float) -> None:
        """Ends all readers, spread over ``seconds``, and takes no new ones. It takes no lock."""
        self._roster.stops_at = (time.monotonic(), seconds)

    def _start(self) -> None:
        if self._thread is None:
            self._is_ready = False
            self._thread = threading.Thread(target=self._run, name="log-hub", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            while self._is_used():
                time.sleep(self._turn())
        except Exception:
            logger.exception("The hub failed. Its readers come back by their cursors.")
        finally:
            connection.close()
            with self._lock:
                if self._thread is threading.current_thread():  # an error of ours ended it
                    self._thread, self._is_ready = None, False
                    self._roster.end(self._roster.everybody(), EndReason.RESTARTING)
                    self._moved.notify_all()

    def _is_used(self) -> bool:
        with self._lock:
            if self._thread is not threading.current_thread():
                return False
            now = time.monotonic()
            if self.readers or self._waiting:
                self._rests_at = now + REST
            elif now >= self._rests_at:
                self._thread, self._is_ready = None, False
            return self._thread is not None

    def _turn(self) -> float:
        """One look at the log and at the clock; returns the seconds until the next one."""
        try:
            self._poll()
            self._check_credentials()
            pause = QUIET_INTERVAL if self._recent.is_quiet and not self.readers else POLL_INTERVAL
        except DatabaseError as error:
            logger.warning("The hub cannot read the log: %s", type(error).__name__)
            connection.close()
            pause = RETRY_INTERVAL
        with self._lock:
            if not self._is_ready:  # it never read the log: whoever asks next tries again
                self._thread = None
                self._moved.notify_all()
            self._roster.end(self._roster.credentials.expired(timezone.now()))
            self._roster.beat(self.epoch, self.position)
            self._roster.go_on_stopping()
        metrics.TOPICS.set(len(self._roster.topics))
        return pause

    def _poll(self) -> None:
        head = read_head()
        if not self._is_ready or head.epoch != self.epoch or head.position < self.position:
            self._begin(head)
        if self.readers and not self._recent.is_recalled:
            self._keep(recall(self.position, self.epoch))
        while self._recent.is_recalled and self.position < head.position:
            events = read_after(self.position)
            for event in events:
                self._apply(event)
            if not events:  # positions without events
                self._keep(Recent(head.position))
        with self._lock:
            if self.position < head.position and not self.readers:  # only the head matters
                self._keep(Recent(head.position))
            self._is_ready = True
            self._moved.notify_all()

    def _keep(self, recent: Recent) -> None:
        with self._lock:
            self._recent = recent

    def _begin(self, head: Head) -> None:
        """Begins at the head of this log. Readers of another one are ended."""
        with self._lock:
            if self._is_ready:
                self._roster.end(self._roster.everybody(), EndReason.CURSOR_LOST)
            self.epoch = head.epoch
            self._keep(Recent(head.position))
            self._roster.beaten_until = time.monotonic() // 1

    def _apply(self, event: Event) -> None:
        with self._lock:
            self._roster.end(self._roster.credentials.expired(event.at))
            self._roster.end(self._roster.credentials.ended_by(event))
            live = LiveEvent(event, self.epoch)
            for reader in self._roster.topics.readers_of(live.topic):
                live.give_to(reader)
            for rule in self._rules:
                self._roster.topics.apply(live.changes(rule))
            self._recent.append(live)

    def _check_credentials(self) -> None:
        if time.monotonic() < self._checked_at + CHECK_INTERVAL:
            return
        self._checked_at = time.monotonic()
        with self._lock:
            kinds = self._roster.credentials.ids()
        for kind, ids in kinds.items():
            ended = kind.find_ended(ids)
            with self._lock:
                self._roster.end(self._roster.credentials.of(kind, ended))


hub = Hub()

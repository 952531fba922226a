"""The readers of a hub: who is there, what ends them, what they see, and when they get heartbeats.

The hub's lock guards all of it.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime

from django.conf import settings

from events.http.refusals import RateLimited
from events.live import metrics
from events.live.frames import COMMENT, EndReason, end_frame, position_frame
from events.live.readers import WHOLE_LOG, Change, Credential, CredentialKind, Reader, Topic
from events.models import Event

WAIT_FOR_PLACE = 15  # seconds after which a reader with too many streams may try again
HEARTBEAT = 15  # seconds between two heartbeats of a reader


class Credentials:
    """The readers of each credential: a token, or a session. A stream ends with it.

    The log says when a token is revoked, a clock when it expires. Besides, one statement for all
    credentials of a kind looks for those that ended in any other way.
    """

    def __init__(self) -> None:
        self._readers: dict[CredentialKind, dict[str, set[Reader]]] = {}
        self._expiries: dict[Credential, datetime] = {}
        self._next_expiry: datetime | None = None

    def add(self, reader: Reader) -> None:
        credential = reader.view.credential
        self._readers.setdefault(credential.kind, {}).setdefault(credential.id, set()).add(reader)
        if credential.expires_at is not None:
            self._expiries[credential] = credential.expires_at
            next_expiry = self._next_expiry or credential.expires_at
            self._next_expiry = min(next_expiry, credential.expires_at)

    def remove(self, reader: Reader) -> None:
        credential = reader.view.credential
        readers = self._of(credential.kind, credential.id)
        readers.discard(reader)
        if not readers:
            self._readers.get(credential.kind, {}).pop(credential.id, None)
            self._expiries.pop(credential, None)

    def ended_by(self, event: Event) -> Iterator[Reader]:
        """The readers whose credential this event ends."""
        for kind in self._readers:
            yield from self.of(kind, kind.ended_by(event))

    def expired(self, now: datetime) -> Iterator[Reader]:
        """The readers whose credential has expired."""
        if self._next_expiry is None or now < self._next_expiry:
            return
        for credential, expires_at in self._expiries.items():
            if expires_at <= now:
                yield from self._of(credential.kind, credential.id)
        later = [expires_at for expires_at in self._expiries.values() if expires_at > now]
        self._next_expiry = min(later, default=None)

    def ids(self) -> dict[CredentialKind, list[str]]:
        """The ids of all credentials, by kind."""
        return {kind: list(readers) for kind, readers in self._readers.items() if readers}

    def of(self, kind: CredentialKind, ids: Iterable[str]) -> Iterator[Reader]:
        """The readers of these credentials."""
        for credential_id in ids:
            yield from self._of(kind, credential_id)

    def _of(self, kind: CredentialKind, credential_id: str) -> set[Reader]:
        return self._readers.get(kind, {}).get(credential_id, set())


class Topics:
    """The readers of each topic. ``Reader.topics`` holds the same from the reader's side."""

    def __init__(self) -> None:
        self._readers: dict[Topic, set[Reader]] = {}

    def __len__(self) -> int:
        return len(self._readers)

    def show(self, reader: Reader, topics: tuple[Topic, ...]) -> None:
        """Lets a reader see these topics, and no others, from the next event on."""
        for topic in set(reader.topics).difference(topics):
            readers = self._readers[topic]
            readers.discard(reader)
            if not readers:
                del self._readers[topic]
        for topic in topics:
            self._readers.setdefault(topic, set()).add(reader)
        reader.topics = topics

    def readers_of(self, topic: Topic) -> Iterator[Reader]:
        """The readers who see an event of this topic."""
        yield from self._readers.get(topic, ())
        if topic is not WHOLE_LOG:
            yield from self._readers.get(WHOLE_LOG, ())

    def apply(self, changes: Iterable[Change]) -> None:
        """Changes what the readers see, from the next event on."""
        for change in changes:
            for reader in list(self._readers.get(change.readers_of or change.topic, ())):
                self.show(reader, changed(reader.topics, [change]))


def changed(topics: tuple[Topic, ...], changes: Iterable[Change]) -> tuple[Topic, ...]:
    """The topics of one reader after these changes."""
    for change in changes:
        if change.readers_of is not None and change.readers_of not in topics:
            continue
        topics = tuple(topic for topic in topics if topic != change.topic)
        if change.opens:
            topics = (*topics, change.topic)
    return topics


class Roster:
    """The admitted readers."""

    def __init__(self) -> None:
        self.admitted = 0
        self.topics = Topics()
        self.credentials = Credentials()
        self.beaten_until = 0.0
        self.stops_at: tuple[float, float] | None = None  # when the stop began, and its length
        self._owners: Counter[str] = Counter()
        self._readers: list[set[Reader]] = [set() for _ in range(HEARTBEAT)]
        self._next_second = 0

    def add(self, reader: Reader) -> None:
        """Adds a reader. Raises ``RateLimited`` if its owner has ``LIMIT_STREAMS`` streams."""
        limit, owner = settings.LIMIT_STREAMS, reader.view.owner
        if reader.counts and limit is not None and self._owners[owner] >= limit:
            raise RateLimited(WAIT_FOR_PLACE)
        reader.second, self._next_second = self._next_second, (self._next_second + 1) % HEARTBEAT
        self._readers[reader.second].add(reader)
        self._owners[owner] += reader.counts
        self.credentials.add(reader)
        self.admitted += 1
        metrics.READERS.inc()

    def knows(self, reader: Reader) -> bool:
        return reader in self._readers[reader.second]

    def remove(self, reader: Reader) -> None:
        """Forgets a reader. Does nothing if it is not here."""
        if not self.knows(reader):
            return
        self._readers[reader.second].discard(reader)
        self._owners[reader.view.owner] -= reader.counts
        if not self._owners[reader.view.owner]:
            del self._owners[reader.view.owner]
        self.credentials.remove(reader)
        self.topics.show(reader, ())
        self.admitted -= 1
        metrics.READERS.dec()

    def everybody(self) -> list[Reader]:
        return [reader for readers in self._readers for reader in readers]

    def end(self, readers: Iterable[Reader], reason: EndReason | None = None) -> None:
        """Ends readers for this reason; None for the one of their kind of credential."""
        for reader in list(readers):
            reader.end(end_frame(reason or reader.view.credential.kind.end_reason))
            self.remove(reader)

    def beat(self, epoch: str, position: int) -> None:
        """Gives heartbeats to the readers of every second that has passed."""
        now = time.monotonic() // 1
        frame = position_frame(epoch, position)
        for second in range(int(max(self.beaten_until, now - HEARTBEAT)), int(now)):
            for reader in self._readers[second % HEARTBEAT]:
                if reader.position is None:
                    reader.beat(COMMENT)
                elif reader.position <= position:
                    reader.beat(frame)
        self.beaten_until = now

    def go_on_stopping(self) -> None:
        """Ends the part of the readers whose time has come, once a stop began."""
        if self.stops_at is None:
            return
        began, seconds = self.stops_at
        part = (time.monotonic() - began) / seconds if seconds else 1.0
        for readers in self._readers[: int(part * HEARTBEAT) + 1]:
            self.end(readers, EndReason.RESTARTING)

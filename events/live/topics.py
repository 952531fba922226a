"""Which readers see which topics now."""

from collections.abc import Iterable, Iterator

from events.live.readers import WHOLE_LOG, Change, Reader, Topic


class Topics:
    """The readers of each topic. ``Reader.topics`` holds the same from the reader's side."""

    def __init__(self) -> None:
        self._readers: dict[Topic, set[Reader]] = {}

    def __len__(self) -> int:
        return len(self._readers)

    def add(self, reader: Reader) -> None:
        """Adds a reader to its topics."""
        for topic in reader.topics:
            self._readers.setdefault(topic, set()).add(reader)

    def remove(self, reader: Reader) -> None:
        """Removes a reader from all of its topics."""
        for topic in reader.topics:
            self._discard(topic, reader)
        reader.topics = ()

    def readers_of(self, topic: Topic) -> Iterator[Reader]:
        """The readers who see an event of this topic."""
        yield from self._readers.get(topic, ())
        if topic is not WHOLE_LOG:
            yield from self._readers.get(WHOLE_LOG, ())

    def apply(self, changes: Iterable[Change]) -> None:
        """Changes what the readers see, from the next event on."""
        for change in changes:
            if change.readers_of is None:
                for reader in list(self._readers.get(change.topic, ())):
                    self._close(change.topic, reader)
            else:
                for reader in self._readers.get(change.readers_of, ()):
                    (self._open if change.opens else self._close)(change.topic, reader)

    def _open(self, topic: str, reader: Reader) -> None:
        if topic not in reader.topics:
            reader.topics = (*reader.topics, topic)
            self._readers.setdefault(topic, set()).add(reader)

    def _close(self, topic: str, reader: Reader) -> None:
        reader.topics = tuple(other for other in reader.topics if other != topic)
        self._discard(topic, reader)

    def _discard(self, topic: Topic, reader: Reader) -> None:
        readers = self._readers.get(topic, set())
        readers.discard(reader)
        if not readers:
            self._readers.pop(topic, None)


def changed(topics: tuple[Topic, ...], changes: Iterable[Change]) -> tuple[Topic, ...]:
    """The topics of one reader after these changes."""
    for change in changes:
        if change.readers_of is not None and change.readers_of not in topics:
            continue
        topics = tuple(topic for topic in topics if topic != change.topic)
        if change.opens:
            topics = (*topics, change.topic)
    return topics

"""A reader of the hub: what it may see, what it asked for, and where its bytes go."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from events.live.frames import EndReason, Version
from events.models import Event, Head

Topic = str | None
WHOLE_LOG = None  # the topic of a reader of all topics. Nobody else reads events without a topic.
# Bytes that may wait for a reader. One that leaves more untaken is cut; it resumes by its cursor.
MAX_UNSENT = 64 * 1024


class Change(NamedTuple):
    """Readers of the topic ``readers_of`` begin, or cease, to see ``topic``.

    ``readers_of`` None with ``opens`` False: all readers of ``topic`` cease to see it.
    """

    topic: str
    opens: bool
    readers_of: str | None = None


Rule = Callable[[Event], Iterable[Change]]


class CredentialKind(Protocol):
    """Tokens, or sessions: how the hub learns that one ended."""

    end_reason: EndReason
    # Whether an event of the log tells of each end that is not an expiry, as far as the service
    # itself ends a credential.
    is_told: bool

    def ended_by(self, event: Event) -> Iterable[str]:
        """The ids that this event of the log ends."""

    def find_ended(self, ids: Collection[str]) -> Collection[str]:
        """Those of these ids that are no longer valid. One statement."""


class Credential(NamedTuple):
    """What a reader presented. ``expires_at`` None: it does not expire by itself."""

    kind: CredentialKind
    id: str
    expires_at: datetime | None

    def has_ended(self, events: Iterable[Event] | None) -> bool:
        """Whether it has ended since it was read.

        ``events`` are those of the log since then; None: unknown, which takes a statement.
        """
        if events is None or not self.kind.is_told:
            return bool(self.kind.find_ended([self.id]))
        return any(self.id in self.kind.ended_by(event) for event in events)


@dataclass(frozen=True, slots=True)
class View:
    """What a reader may see of the log, and what it asked for.

    ``credential`` is what the reader presented: the stream ends with it. ``owner`` is whose streams
    are counted together: a token's id, or a user. ``matches`` is the reader's filter; None lets
    every event pass. ``rule`` says how an event changes which topics its readers see. ``since`` is
    the head of the log as the hub knew it before the credential was read; None: it knew none.
    """

    credential: Credential
    owner: str
    is_platform: bool
    version: Version
    rule: Rule
    matches: Callable[[Event], bool] | None = None
    since: Head | None = None


class Reader:
    """One open stream. A door defines where the bytes go.

    The hub calls ``deliver``, ``beat`` and ``end`` under its lock, in the order in which the bytes
    belong. They must neither block nor call the hub.
    """

    counts = True  # whether ``LIMIT_STREAMS`` counts it
    # ``position`` is where the hub took over: it delivers later events. None: it has not yet.
    # ``slot`` is the second, of those between two heartbeats, in which the reader gets its own.
    __slots__ = ("position", "slot", "topics", "view")

    def __init__(self, view: View) -> None:
        self.view = view
        self.position: int | None = None
        self.topics: tuple[Topic, ...] = ()
        self.slot = 0

    def deliver(self, frame: bytes, at: float) -> None:
        """Takes an event's frame. ``at`` is the event's time, in Unix seconds."""
        raise NotImplementedError

    def beat(self, frame: bytes) -> None:
        """Takes a heartbeat."""
        raise NotImplementedError

    def end(self, frame: bytes) -> None:
        """Takes the last frame."""
        raise NotImplementedError

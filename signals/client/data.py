"""What the client takes and returns, and what it raises."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NotRequired, TypedDict

Direction = Literal["long", "short"]
JsonObject = dict[str, Any]


class Card(TypedDict):
    """A pair and direction for signals to repeat. The published card also has a name."""

    name: NotRequired[str]
    pair: str
    direction: Direction


class Desk(TypedDict):
    """A desk as the engine sees it."""

    userId: str
    connected: bool
    ready: bool
    connection: JsonObject | None
    election: JsonObject | None
    createdAt: str
    updatedAt: str


class RemovedDesk(TypedDict):
    """A desk that is no longer listed."""

    userId: str
    removed: Literal[True]


class DeskPage(TypedDict):
    """A page of desks. ``cardChanged`` and removed desks are in pages of changes only."""

    desks: list[Desk | RemovedDesk]
    asOf: str
    next: str | None
    cardChanged: NotRequired[bool]


class Bot(TypedDict):
    """A bot of the desk. ``state`` says what is missing before its signals are accepted."""

    botId: str
    name: str
    createdAt: str
    state: Literal["accepts_signals", "no_election", "no_secret"]
    election: dict[str, str] | None
    last: dict[str, str | None] | None
    today: JsonObject


class EventFilter(TypedDict, total=False):
    """Which events to read. Several filters narrow together."""

    kinds: Sequence[str]
    user_id: str  # what this desk sees, fan-outs that filled it included
    bot_id: str
    signal: str


class EventSearch(EventFilter, total=False):
    """Which events to read, and from which time: not before ``since``, before ``until``."""

    since: datetime
    until: datetime


class Event(TypedDict):
    """One event of the log. ``position`` orders all of them."""

    id: str
    position: int
    kind: str
    at: str
    actor: dict[str, str | None] | None
    userId: str | None
    signal: JsonObject | None
    data: JsonObject


class Page(TypedDict):
    """A page of the feed. ``next`` is the cursor to continue from, even if the page is empty."""

    events: list[Event]
    next: str
    more: bool


@dataclass(frozen=True, slots=True)
class Accepted:
    """The outcome of a signal. ``repeated`` is True if an earlier call was already accepted."""

    signal: JsonObject
    outcome: str
    matched: int
    filled: int
    repeated: bool


@dataclass(frozen=True, slots=True)
class Checked:
    """What a signal would do now. ``ignored`` are the names of members that have no meaning."""

    signal: JsonObject
    would_be: str
    matched: int
    filled: int
    ignored: list[str]


class ClientError(Exception):
    """The base class of the errors that calls raise."""


class Refusal(ClientError):
    """The service refused the request. ``code`` and ``detail`` are those of section 5."""

    def __init__(self, status: int, problem: JsonObject) -> None:
        self.status, self.problem = status, problem
        self.code: str = problem.get("code", "")
        self.detail: str = problem.get("detail", "")
        super().__init__(f"{status} {self.code}: {self.detail}")


class UnreachableError(ClientError):
    """No response before ``timeout``. A signal may have arrived: send it again with its nonce."""

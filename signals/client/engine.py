"""The engine's calls, and a copy of all desks that it keeps."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Self, Unpack

import httpx2

from .connection import Connection, Query
from .data import (
    Accepted,
    Bot,
    Card,
    Checked,
    Desk,
    DeskPage,
    Event,
    EventFilter,
    EventSearch,
    JsonObject,
    Page,
    Refusal,
)
from .following import FEED, Follower, SavedCursor

HOOK = "/api/hooks/signal"
CHECK = "/api/hooks/check"
SIGNALS = "/api/v1/signals"
PAGE_SIZE = 1000  # desks or bots in one response, at most
TIMEOUT = 60.0  # seconds for one call with all its retries
# The parameters of the feed that ``EventSearch`` has by another name.
PARAMETERS = {"kinds": "kind", "user_id": "userId", "bot_id": "botId"}


class Engine:
    """A client with a platform token, or a desk token for reads of one desk.

    Pass ``http`` to set a proxy, certificates or limits. ``timeout`` is in seconds, retries
    included. Methods raise ``Refusal`` or ``UnreachableError``.
    """

    def __init__(
        self,
        base_url: str,
        token: str,
        *,
        timeout: float = TIMEOUT,
        http: httpx2.Client | None = None,
    ) -> None:
        self._connection = Connection(base_url, token, timeout, http)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    # --- Desks and bots ---------------------------------------------------------------------------

    def card(self) -> Card | None:
        """The published card, or None if there is none."""
        published: Card | None = self._connection.get(HOOK, {})["publishedCard"]
        return published

    def desks(
        self,
        *,
        ready: bool | None = None,
        connected: bool | None = None,
        signal: str | None = None,
        limit: int = PAGE_SIZE,
    ) -> Iterator[Desk]:
        """Yields all desks that match the filters. ``signal`` selects the desks that it filled.

        ``limit`` is the number of desks in one response.
        """
        query: Query = {"ready": ready, "connected": connected, "signal": signal}
        yield from self._list("/api/v1/desks", "desks", query, limit)

    def desk_pages(
        self, *, changed_since: str | None = None, limit: int = PAGE_SIZE
    ) -> Iterator[DeskPage]:
        """Yields the pages of all desks, or of those that changed since the ``asOf`` of a page.

        ``DeskCopy`` keeps a copy of the desks with it.
        """
        yield from self._pages("/api/v1/desks", {"changedSince": changed_since}, limit)

    def desk(self, user_id: str) -> Desk:
        """Returns one desk. Raises ``Refusal`` (``not_found``) if it does not exist."""
        desk: Desk = self._connection.get(f"/api/v1/desks/{user_id}", {})
        return desk

    def bots(self, *, limit: int = PAGE_SIZE) -> Iterator[Bot]:
        """Yields the bots of the desk, for a desk token. ``limit`` as in ``desks``."""
        yield from self._list("/api/v1/bots", "bots", {}, limit)

    # --- Signals ----------------------------------------------------------------------------------

    def deploy(self, user_id: str, card: Card, *, nonce: str) -> Accepted:
        """Sends a signal to one desk, which must be ready."""
        body = {**_elected(card, nonce), "mode": "paper"}
        return self._signal(f"/api/v1/desks/{user_id}/signal", body)

    def fan_out(self, card: Card, *, nonce: str) -> Accepted:
        """Sends a signal to every desk that is ready."""
        return self._signal(HOOK, {**_elected(card, nonce), "fanout": True})

    def check(self, card: Card, *, nonce: str, user_id: str | None = None) -> Checked:
        """Returns what a signal would do now, to one desk or as a fan-out. Nothing is recorded.

        Raises the ``Refusal`` that the signal would get.
        """
        target = {"userId": user_id} if user_id else {"fanout": True}
        found = self._connection.post(CHECK, {**_elected(card, nonce), **target})
        return Checked(
            found["signal"], found["wouldBe"], found["matched"], found["filled"], found["ignored"]
        )

    def signal(self, signal_id: str) -> Accepted:
        """Returns the outcome of an accepted signal.

        Raises ``Refusal`` (``not_found``) if there is none with this id that the token may see.
        """
        return _accepted(self._connection.get(f"{SIGNALS}/{signal_id}", {}), repeated=True)

    def find_signal(
        self,
        nonce: str,
        *,
        source: Literal["floor", "nox"] | None = None,
        bot_id: str | None = None,
    ) -> Accepted:
        """Returns the outcome of the signal with this nonce, of one source or of one bot.

        Raises ``Refusal`` (``not_found``) if none was accepted so far: send it with that nonce.
        """
        query: Query = {"nonce": nonce, "source": source, "botId": bot_id}
        return _accepted(self._connection.get(SIGNALS, query), repeated=True)

    # --- The feed ---------------------------------------------------------------------------------

    def tail(self) -> str:
        """Returns the cursor of the log's end."""
        return str(self._connection.get(FEED, {"order": "desc", "limit": 1})["next"])

    def page(
        self, after: str | None = None, *, wait: int = 0, **search: Unpack[EventSearch]
    ) -> Page:
        """Returns the events after a cursor, or from the beginning of the log.

        If there are none, the service waits up to ``wait`` seconds for one.
        """
        query: Query = {"after": after, "wait": wait, **_by_parameter(search)}
        page: Page = self._connection.get(FEED, query)
        return page

    def follow(
        self, cursor: Path, *, from_beginning: bool = False, **only: Unpack[EventFilter]
    ) -> Iterator[Event]:
        """Yields every event after the saved cursor, without end, by a stream or by long polling.

        If no cursor was saved, it starts at the end of the log, or at its beginning with
        ``from_beginning``. The cursor is saved at most once a second, after an event was consumed,
        and when the iteration ends. After a crash the last second's events (when polling, the last
        page's) are therefore repeated: to avoid acting twice, remember the position. Raises
        ``Refusal`` (``cursor_lost``) if the log was restored from a backup, and if the token ends.
        """
        saved = SavedCursor(cursor)
        if saved.value is None and not from_beginning:
            saved.move(self.tail())
        yield from Follower(self._connection, saved, _by_parameter(only)).events()

    # --- Requests ---------------------------------------------------------------------------------

    def _list(self, path: str, name: str, query: Query, limit: int) -> Iterator[Any]:
        """Yields every element of a list, page by page."""
        for page in self._pages(path, query, limit):
            yield from page[name]

    def _pages(self, path: str, query: Query, limit: int) -> Iterator[Any]:
        after, more = None, True
        while more:
            page = self._connection.get(path, {**query, "limit": limit, "after": after})
            yield page
            after = page["next"]
            more = after is not None

    def _signal(self, path: str, body: JsonObject) -> Accepted:
        try:
            return _accepted(self._connection.post(path, body), repeated=False)
        except Refusal as refusal:
            if not refusal.problem.get("identical"):
                raise
            return _accepted(refusal.problem["first"], repeated=True)


class DeskCopy:
    """All desks by ``userId``, as of the last ``refresh``, without pulling them all each time.

    ``as_of`` is the cursor up to which the copy is complete. Store it with ``desks`` to continue
    after a restart; with None the next ``refresh`` pulls all desks.
    """

    def __init__(self, desks: dict[str, Desk] | None = None, as_of: str | None = None) -> None:
        self.desks = desks if desks is not None else {}
        self.as_of = as_of

    def refresh(self, engine: Engine) -> None:
        """Takes over what changed since the last call. If the log was restored, pulls all again.

        Raises as the engine's calls do. The copy can then be refreshed again.
        """
        try:
            self._take_over(engine)
        except Refusal as refusal:
            if refusal.code != "cursor_lost":
                raise
            self.as_of = None
            self._take_over(engine)

    def _take_over(self, engine: Engine) -> None:
        if self.as_of is None:
            self.desks.clear()
        as_of = self.as_of
        for page in engine.desk_pages(changed_since=self.as_of):
            self._apply(page)
            as_of = page["asOf"]
        self.as_of = as_of

    def _apply(self, page: DeskPage) -> None:
        if page.get("cardChanged"):
            for desk in self.desks.values():
                desk["ready"], desk["election"] = False, None
        for record in page["desks"]:
            if "removed" in record:
                self.desks.pop(record["userId"], None)
            else:
                self.desks[record["userId"]] = record


def _elected(card: Card, nonce: str) -> JsonObject:
    return {
        "pair": card["pair"],
        "direction": card["direction"],
        "nonce": nonce,
        "elected": True,
        "source": "floor",
    }


def _accepted(data: JsonObject, *, repeated: bool) -> Accepted:
    return Accepted(data["signal"], data["outcome"], data["matched"], data["filled"], repeated)


def _by_parameter(search: EventFilter | EventSearch) -> Query:
    """The values of a search by the names of their parameters."""
    return {PARAMETERS.get(name, name): value for name, value in search.items()}

"""A reader's place in a list of desks, which changes while it is read (contract, section 4)."""

from typing import Any

from desks.api.serializers import FILTERS
from events.feed import read_head
from events.http.cursors import log_cursor, log_position, walk_cursor, walk_place
from events.http.refusals import Invalid
from events.models import Head


class Walk:
    """Where a page of desks begins, and what the list is complete up to.

    ``since`` is the position after which a desk must have changed, or None for every desk.
    ``after`` is the key after which the page begins; in a list of changes, a position.
    Raises ``Invalid`` for a cursor of another list and ``CursorLost`` for one of another log.

    Make it before anything else is read. What is committed meanwhile is then behind ``as_of``,
    and the next list of changes includes it.
    """

    def __init__(self, params: dict[str, Any]) -> None:
        self._head = head = read_head()
        self.since = _changed_since(params, head)
        self._name = _list_name(params, self.since)
        self._start, self.after = head.position, self.since or 0
        if "after" in params:
            place = walk_place(params["after"], self._name, head.epoch, head.position)
            self._start, self.after = place

    @property
    def as_of(self) -> str:
        """The cursor of the log's position before the first page. The same on every page."""
        return log_cursor(self._head.epoch, self._start)

    def cursor(self, key: int) -> str:
        """The cursor of the next page, if this one ends with ``key``."""
        return walk_cursor(self._name, self._head.epoch, self._start, key)


def _changed_since(params: dict[str, Any], head: Head) -> int | None:
    if "changedSince" not in params:
        return None
    try:
        return log_position(params["changedSince"], head.epoch, head.position)
    except Invalid:
        detail = "Send the value of asOf from an earlier response, unchanged."
        raise Invalid.field("changedSince", "unknown", detail) from None


def _list_name(params: dict[str, Any], since: int | None) -> str:
    """Identifies the list in its cursors: a cursor is valid only with the same parameters."""
    filters = [f"{name}={params[name]}" for name in FILTERS if name in params]
    return "&".join(["desks", *filters, *([] if since is None else [f"changedSince={since}"])])

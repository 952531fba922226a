"""A copy of all desks that an engine keeps, without pulling them all each time."""

from .data import Desk, DeskPage, Refusal
from .engine import Engine


class DeskCopy:
    """All desks by ``userId``, as of the last ``refresh``.

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

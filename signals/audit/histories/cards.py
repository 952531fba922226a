"""The cards, rebuilt from the log."""

from bisect import bisect_left

from desks.models import Card
from signals.audit.findings import Findings
from signals.audit.rules import (
    AuditMismatchError,
    Row,
    require,
    require_same,
)
from signals.audit.streams import LoggedEvent
from signals.audit.tables import ExpectedRows


class CardHistory:
    """Every card in the log so far. They fit in memory, because staff publish them by hand."""

    def __init__(self, findings: Findings) -> None:
        self._rebuilt = ExpectedRows(findings.cards, "id")
        self._history: list[Row] = []  # in order of publication
        self.published: Row | None = None

    # --- Event handlers ------------------------------------------------------------------------

    def publish(self, event: LoggedEvent) -> None:
        data = event.data
        card = {
            **data["card"],
            "id": data["cardId"],
            "standing": 0,
            "opened": event.position,
            "closed": None,
            "published_at": event.at,
            "retired_at": None,
        }
        require_same(data, Card(**card).as_event_data())
        require(self.published is None, "another card is already published")
        require(card["id"] not in self._rebuilt.rows, "cardId")
        self.published = self._rebuilt.rows[card["id"]] = card
        self._history.append(card)

    def retire(self, event: LoggedEvent) -> None:
        card = self._published(event.data["cardId"])
        require_same(event.data, Card(**card).as_event_data())
        card.update(closed=event.position, retired_at=event.at)
        self.published = None

    def count(self, event: LoggedEvent, progress: int) -> None:
        """Adds ``step`` to the elections on the published card. Ignores the elections of bots."""
        if "botId" not in event.data:
            self._published(event.data["cardId"])["standing"] += progress

    # --- Queries -------------------------------------------------------------------------------

    def at(self, position: int) -> Row | None:
        """Returns the card published at a position. Call it after the whole log was read."""
        index = bisect_left(self._history, position, key=_opened)
        card = self._history[index - 1] if index else None
        if card is None or (card["closed"] is not None and card["closed"] < position):
            return None
        return card

    def compare_with_rows(self) -> None:
        self._rebuilt.compare_all(Card.objects.all())

    def _published(self, card_id: str) -> Row:
        if self.published is None or self.published["id"] != card_id:
            raise AuditMismatchError("this card was not the published one")
        return self.published


def _opened(card: Row) -> int:
    return int(card["opened"])

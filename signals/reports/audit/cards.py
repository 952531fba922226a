"""The cards, rebuilt from the log."""

from bisect import bisect_left
from typing import Any

from desks.models import Card
from signals.reports.audit.findings import Findings
from signals.reports.audit.rules import (
    AuditMismatchError,
    Row,
    require,
    require_members,
    require_same,
)
from signals.reports.audit.streams import LoggedEvent
from signals.reports.audit.tables import ExpectedRows

CARD_MEMBERS = ("name", "pair", "direction")


class CardHistory:
    """Every card in the log so far. They fit in memory, because staff publish them by hand."""

    def __init__(self, findings: Findings) -> None:
        self._rebuilt = ExpectedRows(findings.cards, "id")
        self._history: list[Row] = []  # in order of publication
        self.published: Row | None = None

    # --- Event handlers ------------------------------------------------------------------------

    def publish(self, event: LoggedEvent) -> None:
        card_data = self._card_data(event)
        require(self.published is None, "another card is already published")
        require(event.data["cardId"] not in self._rebuilt.rows, "cardId")
        self.published = {
            **{name: card_data[name] for name in CARD_MEMBERS},
            "id": event.data["cardId"],
            "standing": 0,
            "opened": event.position,
            "closed": None,
            "published_at": event.at,
            "retired_at": None,
        }
        self._rebuilt.rows[self.published["id"]] = self.published
        self._history.append(self.published)

    def retire(self, event: LoggedEvent) -> None:
        card, card_data = self._published(event.data["cardId"]), self._card_data(event)
        require_same(card_data, {name: card[name] for name in CARD_MEMBERS})
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

    def _card_data(self, event: LoggedEvent) -> dict[str, Any]:
        require_members(event.data, ("card", "cardId"))
        card_data: dict[str, Any] = event.data["card"]
        require_members(card_data, CARD_MEMBERS)
        return card_data


def _opened(card: Row) -> int:
    return int(card["opened"])

"""The parameters of the desk list, and the JSON of a desk."""

from typing import Any

from rest_framework import serializers

from desks.models import Card
from desks.models.connection import TRADE_ONLY
from desks.models.desk import DeskQuerySet
from events.columns import ToRfc3339
from events.http.parameters import MAX_TEXT_LENGTH, PageParameters

YES, NO = "1", "0"
# The parameters that filter desks. None of them goes with changedSince.
FILTERS = ("ready", "connected", "signal")


class DeskParameters(PageParameters):
    """The parameters of the desk list (contract, section 4)."""

    ready = serializers.ChoiceField(
        [YES, NO],
        required=False,
        help_text="1 for ready desks, 0 for desks that are not ready.",
    )
    connected = serializers.ChoiceField(
        [YES, NO],
        required=False,
        help_text="1 for connected desks, 0 for desks that are not.",
    )
    signal = serializers.CharField(
        max_length=MAX_TEXT_LENGTH, required=False, help_text="Only desks that this signal filled."
    )
    changedSince = serializers.CharField(
        max_length=MAX_TEXT_LENGTH,
        required=False,
        help_text="The asOf of an earlier response: only desks that changed after it. It takes no "
        "other filter.",
    )

    def validate(self, data: dict[str, Any]) -> dict[str, Any]:
        filters = [name for name in FILTERS if name in data]
        if "changedSince" in data and filters:
            detail = "Send changedSince without other filters."
            raise serializers.ValidationError(dict.fromkeys(filters, detail))
        return data


def desks_as_json(desks: DeskQuerySet, card: Card | None) -> list[tuple[dict[str, Any], int]]:
    """The record and the ``key`` of each desk, in one query. Needs ``with_standing``."""
    return [(_desk(row, card), row["key"]) for row in _rows(desks)]


def changes_as_json(desks: DeskQuerySet, card: Card | None) -> list[tuple[dict[str, Any], int]]:
    """Like ``desks_as_json``, with no more than the id of desks that left."""
    return [
        (_left(row) if row["deactivated"] else _desk(row, card), row["key"])
        for row in _rows(desks, "deactivated")
    ]


def _rows(desks: DeskQuerySet, *columns: str) -> Any:
    return desks.values(
        "public_id",
        "key",
        *columns,
        "linked__venue",
        "standing__pair",
        "standing__direction",
        created=ToRfc3339("created_at"),
        updated=ToRfc3339("updated_at"),
        connected_since=ToRfc3339("linked__connected_at"),
        elected=ToRfc3339("standing__elected_at"),
    )


def _left(row: dict[str, Any]) -> dict[str, Any]:
    return {"userId": row["public_id"], "removed": True}


def _desk(row: dict[str, Any], card: Card | None) -> dict[str, Any]:
    ready = card is not None and row["standing__pair"] is not None
    return {
        "userId": row["public_id"],
        "paper": True,
        "liveWrites": False,
        "connected": row["linked__venue"] is not None,
        "ready": ready,
        "connection": _connection(row),
        "election": _election(row, card) if card and ready else None,
        "createdAt": row["created"],
        "updatedAt": row["updated"],
    }


def _connection(row: dict[str, Any]) -> dict[str, Any] | None:
    if row["linked__venue"] is None:
        return None
    return {
        "venue": row["linked__venue"],
        "access": TRADE_ONLY,
        "connectedAt": row["connected_since"],
    }


def _election(row: dict[str, Any], card: Card) -> dict[str, Any]:
    return {
        "card": card.name,
        "pair": row["standing__pair"],
        "direction": row["standing__direction"],
        "electedAt": row["elected"],
    }

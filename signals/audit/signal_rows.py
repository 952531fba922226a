"""Checks the row of a signal against its event and against the published card."""

from collections.abc import Mapping
from typing import Any

from events.kinds import Kind
from signals.audit.rules import AuditMismatchError, Row, differences, require
from signals.audit.streams import LoggedEvent
from signals.intake.models import Outcome, Signal
from signals.law.shapes import Mode

KINDS = {
    Outcome.FILLED: Kind.SIGNAL_FILLED,
    Outcome.DRY_RUN: Kind.SIGNAL_DRY_RUN,
    Outcome.RECORDED: Kind.SIGNAL_RECORDED,
}
SIGNAL_KINDS = frozenset(KINDS.values())


def row_differences(signal: Signal, event: LoggedEvent, card: Row | None) -> list[str]:
    """Returns the names in which a row and its event differ. ``card`` is the published card."""
    column_differences = differences(_event_columns(event, card), _row_columns(signal))
    everything = signal.to_dict()
    for_platform = {"signal": everything, "data": _counts(signal)}
    for_desks = {"signal": signal.visible_to_desks(everything), "data": {}}
    differing = [
        *column_differences,
        *_differing(event.platform_content, for_platform),
        *(f"{name} for desks" for name in _differing(event.content, for_desks)),
    ]
    return list(dict.fromkeys(differing))


def expected_outcome(signal: dict[str, Any], standing: int) -> tuple[Outcome, int, int]:
    """Returns the ``(outcome, matched, filled)`` that a signal must have (contract, section 4).

    ``signal`` is its JSON for the platform. ``standing`` is the number of elections that stand on
    the published card.
    """
    one = signal["userId"] is not None
    if signal["mode"] == Mode.DRAFT:
        return Outcome.RECORDED, 0, 0
    matched = int(one) if one or not signal["fanout"] else standing
    if signal["mode"] == Mode.DRY_RUN:
        return Outcome.DRY_RUN, matched, 0
    if one or signal["fanout"]:
        return Outcome.FILLED, matched, matched
    return Outcome.RECORDED, 0, 0


def check_outcome(event: LoggedEvent, card: Row | None) -> None:
    """Raises ``AuditMismatchError`` if the outcome or the counts of a signal are wrong."""
    signal, data = event.platform_content["signal"], event.platform_content["data"]
    outcome, matched, filled = expected_outcome(signal, card["standing"] if card else 0)
    require(event.kind == KINDS[outcome], "outcome")
    require(data["matched"] == matched and data.get("filled", 0) == filled, "matched")
    if signal["botId"] is None:
        check_elected(signal, card)


def check_elected(signal: dict[str, Any], elected: Row | None) -> None:
    """Raises ``AuditMismatchError`` unless the signal repeats the elected pair and direction."""
    if elected is None:
        raise AuditMismatchError("no election was standing")
    for name in ("pair", "direction"):
        require(signal[name] == elected[name], name)


def _differing(content: dict[str, Row], expected: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Returns the names of the members that differ, and of the members that are not expected."""
    unexpected = [name for name in content if name not in expected]
    return unexpected + [
        name for part in expected for name in differences(content[part], expected[part])
    ]


def _counts(signal: Signal) -> dict[str, Any]:
    """The ``data`` that the platform sees. ``_row_columns`` compares the column ``filled``."""
    filled = {"filled": signal.filled} if signal.outcome == Outcome.FILLED else {}
    return {"matched": signal.matched, **filled}


def _event_columns(event: LoggedEvent, card: Row | None) -> Row:
    """The columns that the JSON of a signal does not contain, derived from its event."""
    signal = event.platform_content["signal"]
    return {
        "topic": event.topic,
        "public_id": event.signal_id,
        "signer": signal["botId"] or signal["source"],
        "outcome": event.kind.removeprefix("signal."),
        "card_id": card["id"] if card and signal["botId"] is None else None,
        "credential": event.actor_id,
        "received_at": event.at,
        "filled": event.platform_content["data"].get("filled", 0),
    }


def _row_columns(signal: Signal) -> Row:
    of_card = signal.user_id is None and signal.outcome == Outcome.FILLED
    columns = ("public_id", "signer", "outcome", "card_id", "credential", "received_at", "filled")
    return {
        "topic": signal.card_id if of_card else signal.user_id,
        **{name: getattr(signal, name) for name in columns},
    }

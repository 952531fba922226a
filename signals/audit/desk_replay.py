"""One desk, rebuilt from its events."""

from collections.abc import Callable
from typing import Any

from django.db.models import Model

from desks.models import Automation, Connection, Desk, Election
from desks.models.election import Reason
from events.kinds import Kind
from signals.audit.findings import Findings
from signals.audit.histories.bots import BotHistory
from signals.audit.histories.cards import CardHistory
from signals.audit.histories.credentials import CredentialHistory
from signals.audit.histories.subscriptions import SubscriptionHistory
from signals.audit.rules import (
    AuditMismatchError,
    Row,
    require,
    require_members,
    require_same,
)
from signals.audit.signal_rows import check_elected
from signals.audit.streams import LoggedEvent
from signals.audit.tables import ExpectedRows
from signals.law.shapes import Mode
from signals.webhooks.models import Subscription, SubscriptionSecret
from tokens.models import SigningSecret, Token

# Events of these kinds change the desk's own row.
DESK_UPDATING_KINDS = ("desk.", "election.")


class DeskReplay:
    """The state of a desk after the events applied so far.

    Each handler raises ``AuditMismatchError`` for an event that cannot follow the ones before it.
    """

    def __init__(self, findings: Findings, cards: CardHistory, user_id: str) -> None:
        self.user_id = user_id
        self.row: Row | None = None
        self.desks = ExpectedRows(findings.desks, "desk_user_id")
        self.connections = ExpectedRows(findings.connections, "desk_user_id")
        self.elections = ExpectedRows(findings.elections, "opened", prefix="evt_")
        self.bots = BotHistory(findings)
        self.credentials = CredentialHistory(findings, user_id)
        self.webhooks = SubscriptionHistory(findings)
        self.tables: dict[type[Model], ExpectedRows] = {
            Desk: self.desks,
            Connection: self.connections,
            Automation: self.bots.table,
            Election: self.elections,
            Token: self.credentials.tokens,
            SigningSecret: self.credentials.secrets,
            Subscription: self.webhooks.subscriptions,
            SubscriptionSecret: self.webhooks.secrets,
        }
        self._is_closed = False
        self._open_elections: dict[str, Row] = {}  # by bot or card id
        self._cards, self._findings = cards, findings
        self._handlers: dict[str, Callable[[LoggedEvent], None]] = {
            Kind.DESK_CREATED: self._create,
            Kind.DESK_CONNECTED: self._connect,
            Kind.DESK_DISCONNECTED: self._disconnect,
            Kind.DESK_DEACTIVATED: self._deactivate,
            Kind.DESK_REACTIVATED: self._reactivate,
            Kind.DESK_CLOSED: self._close,
            Kind.ELECTION_MADE: self._elect,
            Kind.ELECTION_WITHDRAWN: self._withdraw,
            Kind.AUTOMATION_CREATED: self.bots.add,
            Kind.AUTOMATION_CHANGED: self.bots.change,
            Kind.AUTOMATION_QUIET: self.bots.fall_silent,
            Kind.AUTOMATION_HEARD: self.bots.be_heard,
            Kind.AUTOMATION_REMOVED: self._remove_bot,
            Kind.TOKEN_MINTED: self.credentials.mint,
            Kind.TOKEN_REVOKED: self.credentials.revoke,
            Kind.SECRET_GENERATED: self._generate,
            Kind.SECRET_ENDED: self.credentials.end,
            **self.webhooks.handlers,
        }

    def apply(self, event: LoggedEvent) -> None:
        """Applies the next event and records any promise that it breaks."""
        if handler := self._handlers.get(event.kind):
            self._findings.events.check(event.id, lambda: self._apply(event, handler))
        elif event.kind in (Kind.SIGNAL_FILLED, Kind.SIGNAL_DRY_RUN):
            name, findings = str(event.signal_id), self._findings
            findings.consent.check(name, lambda: self._check_consent(event))
            findings.credentials.check(name, lambda: self._check_credential(event))
            self._findings.events.check(event.id, lambda: self.bots.fill(event))

    def close(self) -> None:
        for table in self.tables.values():
            table.close()

    def _apply(self, event: LoggedEvent, handler: Callable[[LoggedEvent], None]) -> None:
        require((self.row is None) == (event.kind == Kind.DESK_CREATED), "desk.created comes first")
        require(not self._is_closed, "the desk was closed")
        handler(event)
        if event.kind.startswith(DESK_UPDATING_KINDS):
            self._desk_row.update(changed=event.position, updated_at=event.at)

    @property
    def _desk_row(self) -> Row:
        """The desk's row. Raises ``AuditMismatchError`` before ``desk.created``."""
        if self.row is None:
            raise AuditMismatchError("the desk does not exist yet")
        return self.row

    # --- The desk and its connection -------------------------------------------------------------

    def _create(self, event: LoggedEvent) -> None:
        require_same(event.data, {"venue": None})
        self.row = {
            "public_id": self.user_id,
            "created_at": event.at,
            "updated_at": event.at,
            "changed": event.position,
            "connected": False,
            "enrolled_id": None,
            "deactivated": False,
        }
        self.desks.rows[self.user_id] = self.row

    def _connect(self, event: LoggedEvent) -> None:
        require_members(event.data, ("venue",))
        require(
            not self._desk_row["connected"] and not self._desk_row["deactivated"],
            "the desk was already connected, or deactivated",
        )
        self._desk_row["connected"] = True
        connection = {"venue": event.data["venue"], "connected_at": event.at}
        self.connections.rows[self.user_id] = connection

    def _disconnect(self, event: LoggedEvent) -> None:
        require(self.user_id in self.connections.rows, "the desk was not connected")
        require_same(event.data, {"venue": self.connections.rows[self.user_id]["venue"]})
        require(not self._standing_elections(event), "an election was still standing")
        del self.connections.rows[self.user_id]
        self._desk_row.update(connected=False, enrolled_id=None)

    def _deactivate(self, event: LoggedEvent) -> None:
        require_same(event.data, {"venue": None})
        bots = self.bots.not_removed()
        remaining = self._desk_row["connected"] or self.credentials.has_token() or bots
        require(not remaining, "it still had a connection, a token or a bot")
        require(self.webhooks.is_empty(), "it still had a webhook")
        require(not self._desk_row["deactivated"], "the desk was already deactivated")
        self._desk_row["deactivated"] = True

    def _close(self, event: LoggedEvent) -> None:
        self._deactivate(event)
        self._is_closed = True

    def _reactivate(self, event: LoggedEvent) -> None:
        require_same(event.data, {"venue": None})
        require(self._desk_row["deactivated"], "the desk was not deactivated")
        self._desk_row["deactivated"] = False

    # --- Bots and elections ----------------------------------------------------------------------

    def _remove_bot(self, event: LoggedEvent) -> None:
        require(self._standing_election(event, event.data["botId"]) is None, "its election stands")
        self.bots.remove(event)

    def _elect(self, event: LoggedEvent) -> None:
        require(self._desk_row["connected"], "the desk was not connected")
        on = self._target_of(event)
        require_members(event.data, ("pair", "direction", *on))
        require(
            self._standing_election(event, event.data.get("botId")) is None,
            "another election stood",
        )
        card_id, bot_id = event.data.get("cardId"), event.data.get("botId")
        self.elections.rows[event.position] = self._open_elections[str(bot_id or card_id)] = {
            "card_id": card_id,
            "automation_id": bot_id,
            "pair": event.data["pair"],
            "direction": event.data["direction"],
            "opened": event.position,
            "closed": None,
            "elected_at": event.at,
            "reason": None,
        }
        if card_id:
            self._desk_row["enrolled_id"] = card_id

    def _withdraw(self, event: LoggedEvent) -> None:
        on = self._target_of(event)
        election = self._standing_election(event, event.data.get("botId"))
        if election is None:
            raise AuditMismatchError("no election was standing")
        expected = {name: election[name] for name in ("pair", "direction")}
        require_same(event.data, {**expected, **on, "reason": event.data["reason"]})
        require(event.data["reason"] in Reason.values, "reason")
        election.update(closed=event.position, reason=event.data["reason"])
        del self._open_elections[election["automation_id"] or election["card_id"]]
        if "cardId" in on:
            self._desk_row["enrolled_id"] = None

    def _target_of(self, event: LoggedEvent) -> dict[str, Any]:
        """The members with which the event must name its bot or card."""
        if "botId" in event.data:
            return {"botId": self.bots.active(event.data["botId"])["id"]}
        card = self._cards.at(event.position)
        if card is None:
            raise AuditMismatchError("no card was published")
        check_elected(event.data, card)
        return {"card": card["name"], "cardId": card["id"]}

    def _generate(self, event: LoggedEvent) -> None:
        self.bots.active(event.data["owner"])
        self.credentials.generate(event)

    # --- Standing elections and checks of signals ------------------------------------------------

    def _standing_elections(self, event: LoggedEvent) -> list[Row]:
        """The elections standing at an event. An election on a retired card has ended."""
        card = self._cards.at(event.position)
        published = card["id"] if card else None
        return [one for one in self._open_elections.values() if one["card_id"] in (None, published)]

    def _standing_election(self, event: LoggedEvent, bot_id: str | None) -> Row | None:
        """The election standing for the bot, or on the published card if ``bot_id`` is None."""
        if bot_id is not None:
            return self._open_elections.get(bot_id)
        card = self._cards.at(event.position)
        return self._open_elections.get(card["id"]) if card else None

    def _check_consent(self, event: LoggedEvent) -> None:
        require(self.row is not None, "the desk does not exist yet")
        signal = event.content["signal"]
        require(signal["userId"] == self.user_id, "userId")
        require(signal["mode"] != Mode.DRAFT, "mode")
        check_elected(signal, self._standing_election(event, signal["botId"]))

    def _check_credential(self, event: LoggedEvent) -> None:
        """Checks the secret of a bot's signal. ``LogReplay`` checks all other credentials."""
        signal = event.content["signal"]
        if signal["botId"] is not None:
            self.credentials.authorise(event, signal["source"], signal["botId"])

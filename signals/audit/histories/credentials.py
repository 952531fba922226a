"""The tokens and signing secrets of one desk, or of the platform, rebuilt from the log."""

from typing import Any

from events.actors import ActorType
from signals.audit.findings import Findings
from signals.audit.rules import (
    AuditMismatchError,
    Row,
    moment,
    require,
    require_same,
)
from signals.audit.streams import LoggedEvent
from signals.audit.tables import ExpectedRows
from tokens.choices import Scope, Source
from tokens.models import SigningSecret, Token
from tokens.models.token import READ, WRITE


class CredentialHistory:
    """Every token and secret of one owner in the log so far, by id.

    ``user_id`` is the desk that owns them, or None for the platform.
    """

    def __init__(self, findings: Findings, user_id: str | None) -> None:
        self.user_id = user_id
        self.tokens = ExpectedRows(findings.tokens, "public_id")
        self.secrets = ExpectedRows(findings.secrets, "public_id")
        self._scope = Scope.PLATFORM if user_id is None else Scope.DESK
        self._nox_is_separate = False
        # A desk has at most one token, and each owner at most one secret in use.
        self._token: Row | None = None
        self._in_use: dict[str, Row] = {}

    # --- Event handlers ------------------------------------------------------------------------

    def mint(self, event: LoggedEvent) -> None:
        data = event.data
        token = {
            "public_id": data["id"],
            "scope": self._scope.value,
            "name": data["name"],
            "can_read": READ in data["scopes"],
            "can_write": WRITE in data["scopes"],
            "hint": data["hint"],
            "created_at": event.at,
            "expires_at": moment(data["expiresAt"]),
            "revoked_at": None,
        }
        require_same(data, self._token_data(token))
        require(data["scopes"], "scopes")
        require(data["id"] not in self.tokens.rows, "id")
        require(self.user_id is None or not self.has_token(), "the desk already had a token")
        self._token = self.tokens.rows[data["id"]] = token

    def has_token(self) -> bool:
        """Returns whether the latest token has not been revoked."""
        return self._token is not None and self._token["revoked_at"] is None

    def revoke(self, event: LoggedEvent) -> None:
        token = self.tokens.rows[event.data["id"]]
        require(token["revoked_at"] is None, "it was already revoked")
        require_same(event.data, self._token_data({**token, "revoked_at": event.at}))
        token["revoked_at"] = event.at

    def generate(self, event: LoggedEvent) -> None:
        data = event.data
        shared = data["owner"] in (Source.FLOOR, Source.NOX)
        secret = {
            "public_id": data["id"],
            "source": data["owner"] if shared else Source.TRADINGVIEW.value,
            "automation_id": None if shared else data["owner"],
            "hint": data["hint"],
            "created_at": event.at,
            "ends_at": None,
        }
        require_same(data, SigningSecret(**secret).as_event_data())
        require(data["id"] not in self.secrets.rows, "id")
        require(shared == (self.user_id is None), "owner")
        require(data["owner"] not in self._in_use, "another secret was in use")
        self._nox_is_separate |= data["owner"] == Source.NOX
        self.secrets.rows[data["id"]] = self._in_use[data["owner"]] = secret

    def end(self, event: LoggedEvent) -> None:
        secret, ends_at = self.secrets.rows[event.data["id"]], moment(event.data["endsAt"])
        before = secret["ends_at"]
        require(ends_at is not None and ends_at >= event.at, "endsAt")
        require(before is None or ends_at == event.at < before, "its end was already set")
        require_same(event.data, SigningSecret(**{**secret, "ends_at": ends_at}).as_event_data())
        secret["ends_at"] = ends_at
        if before is None:
            del self._in_use[event.data["owner"]]

    # --- Checks ----------------------------------------------------------------------------------

    def authorise(self, event: LoggedEvent, source: str, bot_id: str | None) -> None:
        """Raises ``AuditMismatchError`` if the credential could not authorise this signal."""
        actor = event.actor_id
        if token := self.tokens.rows.get(actor):
            require(event.actor_type == ActorType.TOKEN, "actor")
            expired = token["expires_at"] is not None and token["expires_at"] <= event.at
            require(not expired and token["revoked_at"] is None, f"{actor} was expired or revoked")
            require(token["can_write"] and bot_id is None, f"{actor} was not allowed to push it")
        elif secret := self.secrets.rows.get(actor):
            require(event.actor_type == ActorType.SECRET, "actor")
            ended = secret["ends_at"] is not None and secret["ends_at"] <= event.at
            require(not ended, f"{actor} had ended")
            require(
                self._signs_for(secret, source, bot_id), f"{actor} is not the secret of this source"
            )
        else:
            raise AuditMismatchError("no such credential in the log")

    def _signs_for(self, secret: dict[str, Any], source: str, bot_id: str | None) -> bool:
        """The Floor secret also signs for nox until nox gets a secret of its own."""
        if source == Source.NOX and not self._nox_is_separate:
            return bool(secret["source"] == Source.FLOOR)
        return bool(secret["source"] == source and secret["automation_id"] == bot_id)

    def _token_data(self, token: Row) -> dict[str, Any]:
        """The data that the token's events must have."""
        return {**Token(**token).as_event_data(), "userId": self.user_id}

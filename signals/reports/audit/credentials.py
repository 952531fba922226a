"""The tokens and signing secrets of one desk, or of the platform, rebuilt from the log."""

from datetime import datetime
from typing import Any

from events.actors import ActorType
from events.times import to_rfc3339
from signals.reports.audit.findings import Findings
from signals.reports.audit.rules import (
    AuditMismatchError,
    Row,
    moment,
    require,
    require_members,
    require_same,
)
from signals.reports.audit.streams import LoggedEvent
from signals.reports.audit.tables import ExpectedRows
from tokens.choices import Scope, Source
from tokens.models.token import READ, WRITE

TOKEN_MEMBERS = (
    *("id", "scope", "name", "scopes", "hint"),
    *("createdAt", "expiresAt", "revokedAt", "userId"),
)
SECRET_MEMBERS = ("id", "owner", "hint", "createdAt", "endsAt")
TOKEN_COLUMNS = (
    *("public_id", "scope", "name", "can_read", "can_write", "hint"),
    *("created_at", "expires_at", "revoked_at"),
)
SECRET_COLUMNS = ("public_id", "source", "automation_id", "hint", "created_at", "ends_at")


class CredentialHistory:
    """Every token and secret of one owner in the log so far, by id.

    ``user_id`` is the desk that owns them, or None for the platform.
    """

    def __init__(self, findings: Findings, user_id: str | None) -> None:
        self.user_id = user_id
        self.tokens = ExpectedRows(findings.tokens)
        self.secrets = ExpectedRows(findings.secrets)
        self._scope = Scope.PLATFORM if user_id is None else Scope.DESK
        self._nox_is_separate = False
        # A desk has at most one token, and each owner at most one secret in use.
        self._token: Row | None = None
        self._in_use: dict[str, Row] = {}

    def close(self) -> None:
        self.tokens.close()
        self.secrets.close()

    # --- Event handlers ------------------------------------------------------------------------

    def mint(self, event: LoggedEvent) -> None:
        data = event.data
        require_members(data, TOKEN_MEMBERS)
        fresh = {"createdAt": to_rfc3339(event.at), "revokedAt": None}
        require_same(data, {**data, **fresh, "scope": self._scope, "userId": self.user_id})
        scopes = data["scopes"]
        require(scopes in ([READ], [WRITE], [READ, WRITE]), "scopes")
        require(data["id"] not in self.tokens.rows, "id")
        require(self.user_id is None or not self.has_token(), "the desk already had a token")
        self._token = self.tokens.rows[data["id"]] = {
            **{name: data[name] for name in ("scope", "name", "hint")},
            "public_id": data["id"],
            "can_read": READ in scopes,
            "can_write": WRITE in scopes,
            "created_at": event.at,
            "expires_at": moment(data["expiresAt"]),
            "revoked_at": None,
        }

    def has_token(self) -> bool:
        """Returns whether the latest token has not been revoked."""
        return self._token is not None and self._token["revoked_at"] is None

    def revoke(self, event: LoggedEvent) -> None:
        token = self.tokens.rows[event.data["id"]]
        require(token["revoked_at"] is None, "it was already revoked")
        require_same(event.data, self._token_data(token, revoked_at=event.at))
        token["revoked_at"] = event.at

    def generate(self, event: LoggedEvent) -> None:
        data = event.data
        require_members(data, SECRET_MEMBERS)
        require_same(data, {**data, "createdAt": to_rfc3339(event.at), "endsAt": None})
        require(data["id"] not in self.secrets.rows, "id")
        shared = data["owner"] in (Source.FLOOR, Source.NOX)
        require(shared == (self.user_id is None), "owner")
        require(data["owner"] not in self._in_use, "another secret was in use")
        self._nox_is_separate |= data["owner"] == Source.NOX
        self.secrets.rows[data["id"]] = self._in_use[data["owner"]] = {
            "public_id": data["id"],
            "source": data["owner"] if shared else Source.TRADINGVIEW.value,
            "automation_id": None if shared else data["owner"],
            "hint": data["hint"],
            "created_at": event.at,
            "ends_at": None,
        }

    def end(self, event: LoggedEvent) -> None:
        secret, ends_at = self.secrets.rows[event.data["id"]], moment(event.data["endsAt"])
        before = secret["ends_at"]
        require(ends_at is not None and ends_at >= event.at, "endsAt")
        require(before is None or ends_at == event.at < before, "its end was already set")
        require_same(event.data, _secret_data(secret, ends_at))
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

    def _token_data(self, token: dict[str, Any], revoked_at: datetime) -> dict[str, Any]:
        """The data that ``token.revoked`` must have."""
        scopes = [READ] * token["can_read"] + [WRITE] * token["can_write"]
        return {
            **{name: token[name] for name in ("scope", "name", "hint")},
            "id": token["public_id"],
            "scopes": scopes,
            "createdAt": to_rfc3339(token["created_at"]),
            "expiresAt": to_rfc3339(token["expires_at"]),
            "revokedAt": to_rfc3339(revoked_at),
            "userId": self.user_id,
        }


def _secret_data(secret: dict[str, Any], ends_at: datetime | None) -> dict[str, Any]:
    """The data that ``secret.ended`` must have."""
    return {
        "id": secret["public_id"],
        "owner": secret["automation_id"] or secret["source"],
        "hint": secret["hint"],
        "createdAt": to_rfc3339(secret["created_at"]),
        "endsAt": to_rfc3339(ends_at),
    }

"""The webhook subscriptions of one desk, or of the platform, rebuilt from the log."""

from collections.abc import Callable, Mapping

from events.kinds import Kind
from signals.audit.findings import Findings
from signals.audit.rules import Row, moment, require, require_same
from signals.audit.streams import LoggedEvent
from signals.audit.tables import ExpectedRows
from signals.webhooks.models import (
    Reason,
    State,
    Subscription,
    SubscriptionSecret,
    SubscriptionSecretRecord,
)

CHANGES = ("kinds", "url")


class SubscriptionHistory:
    """Every subscription of one owner in the log so far, and its secrets, by id.

    What a runner changes is not in the log: the cursor, the failures and the lease.
    """

    def __init__(self, findings: Findings) -> None:
        self.subscriptions = ExpectedRows(findings.subscriptions, "public_id")
        self.secrets = ExpectedRows(findings.webhook_secrets, "public_id")
        self._secrets_of: dict[str, dict[str, Row]] = {}
        self.handlers: Mapping[str, Callable[[LoggedEvent], None]] = {
            Kind.SUBSCRIPTION_CREATED: self._create,
            Kind.SUBSCRIPTION_VERIFIED: self._verify,
            Kind.SUBSCRIPTION_CHANGED: self._change,
            Kind.SUBSCRIPTION_SECRET_REPLACED: self._replace_secret,
            Kind.SUBSCRIPTION_PAUSED: self._pause,
            Kind.SUBSCRIPTION_RESUMED: self._resume,
            Kind.SUBSCRIPTION_REWOUND: self._rewind,
            Kind.SUBSCRIPTION_DISABLED: self._disable,
            Kind.SUBSCRIPTION_REMOVED: self._remove,
        }

    def is_empty(self) -> bool:
        return not self.subscriptions.rows

    # --- Event handlers --------------------------------------------------------------------------

    def _create(self, event: LoggedEvent) -> None:
        data = event.data
        require(data["id"] not in self.subscriptions.rows, "id")
        row = self.subscriptions.rows[data["id"]] = {
            "public_id": data["id"],
            "kinds": data["kinds"] or [],
            "state": State.UNVERIFIED.value,
            "reason": None,
            "is_verified": False,
            "created_at": event.at,
            "revision": 0,
        }
        self._secrets_of[data["id"]] = {}
        self._check(event, row, secret=self._add_secret(event))

    def _verify(self, event: LoggedEvent) -> None:
        row = self._row(event)
        require(not row["is_verified"], "it was already verified")
        row["is_verified"] = True
        if row["state"] == State.UNVERIFIED:
            row["state"] = State.ACTIVE.value
        self._check(event, row)

    def _change(self, event: LoggedEvent) -> None:
        row, data = self._row(event), event.data
        changed = data["changed"]
        require(changed and changed == [name for name in CHANGES if name in changed], "changed")
        if "kinds" in changed:
            require(row["kinds"] != (data["kinds"] or []), "kinds")
            row["kinds"] = data["kinds"] or []
        if "url" in changed:
            state = row["state"] if row["state"] == State.PAUSED else State.UNVERIFIED.value
            row.update(is_verified=False, state=state, reason=None)
            row["revision"] += 1
        self._check(event, row, changed=changed)

    def _replace_secret(self, event: LoggedEvent) -> None:
        row, ends_at = self._row(event), moment(event.data["previousEndsAt"])
        require(ends_at is not None and ends_at >= event.at, "previousEndsAt")
        for public_id, secret in list(self._secrets_of[row["public_id"]].items()):
            if secret["ends_at"] is not None or ends_at == event.at:
                self._drop_secret(row, public_id)
            else:
                secret["ends_at"] = ends_at
        self._check(
            event, row, secret=self._add_secret(event), previousEndsAt=event.data["previousEndsAt"]
        )

    def _pause(self, event: LoggedEvent) -> None:
        row = self._row(event)
        require(row["state"] != State.PAUSED, "it was already paused")
        row.update(state=State.PAUSED.value, reason=None)
        self._check(event, row)

    def _resume(self, event: LoggedEvent) -> None:
        row = self._row(event)
        require(row["state"] in (State.PAUSED, State.DISABLED), "it was not paused or disabled")
        state = State.ACTIVE if row["is_verified"] else State.UNVERIFIED
        row.update(state=state.value, reason=None)
        self._check(event, row)

    def _rewind(self, event: LoggedEvent) -> None:
        row, position = self._row(event), event.data["position"]
        require(0 <= position < event.position, "position")
        row["revision"] += 1
        self._check(event, row, position=position)

    def _disable(self, event: LoggedEvent) -> None:
        row = self._row(event)
        require(row["state"] == State.ACTIVE, "it was not active")
        require(event.data["reason"] in Reason.values, "reason")
        row.update(state=State.DISABLED.value, reason=event.data["reason"])
        self._check(event, row)

    def _remove(self, event: LoggedEvent) -> None:
        row = self._row(event)
        self._check(event, row)
        for public_id in list(self._secrets_of[row["public_id"]]):
            self._drop_secret(row, public_id)
        del self._secrets_of[row["public_id"]]
        del self.subscriptions.rows[row["public_id"]]

    # --- Shared ----------------------------------------------------------------------------------

    def _row(self, event: LoggedEvent) -> Row:
        return self.subscriptions.rows[event.data["id"]]

    def _add_secret(self, event: LoggedEvent) -> SubscriptionSecretRecord:
        """Adds the secret that the event tells of, and returns the data that it must have."""
        data = event.data["secret"]
        secret = {
            "public_id": data["id"],
            "hint": data["hint"],
            "created_at": event.at,
            "ends_at": None,
        }
        require(data["id"] not in self.secrets.rows, "secret")
        self.secrets.rows[data["id"]] = self._secrets_of[event.data["id"]][data["id"]] = secret
        return SubscriptionSecret(**secret).as_event_data()

    def _drop_secret(self, row: Row, public_id: str) -> None:
        del self.secrets.rows[public_id]
        del self._secrets_of[row["public_id"]][public_id]

    def _check(self, event: LoggedEvent, row: Row, **more: object) -> None:
        """Compares the event's data with the record after it.

        Events of earlier releases also name the host.
        """
        data = {name: value for name, value in event.data.items() if name != "host"}
        require_same(data, {**Subscription(**row).as_event_data(), **more})

"""Ends streams with the credential that opened them: a token, or a session.

The log says when a token is revoked, a clock when it expires. Besides, one statement for all
credentials of a kind looks for those that ended in any other way.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime

from events.live.readers import Credential, CredentialKind, Reader
from events.models import Event


class Credentials:
    """The readers of each credential. The hub's lock guards it."""

    def __init__(self) -> None:
        self._readers: dict[CredentialKind, dict[str, set[Reader]]] = {}
        self._expiries: dict[Credential, datetime] = {}
        self._next_expiry: datetime | None = None

    def add(self, reader: Reader) -> None:
        credential = reader.view.credential
        self._readers.setdefault(credential.kind, {}).setdefault(credential.id, set()).add(reader)
        if credential.expires_at is not None:
            self._expiries[credential] = credential.expires_at
            next_expiry = self._next_expiry or credential.expires_at
            self._next_expiry = min(next_expiry, credential.expires_at)

    def remove(self, reader: Reader) -> None:
        credential = reader.view.credential
        readers = self._of(credential.kind, credential.id)
        readers.discard(reader)
        if not readers:
            self._readers.get(credential.kind, {}).pop(credential.id, None)
            self._expiries.pop(credential, None)

    def ended_by(self, event: Event) -> Iterator[Reader]:
        """The readers whose credential this event ends."""
        for kind in self._readers:
            yield from self.of(kind, kind.ended_by(event))

    def expired(self, now: datetime) -> Iterator[Reader]:
        """The readers whose credential has expired."""
        if self._next_expiry is None or now < self._next_expiry:
            return
        for credential, expires_at in self._expiries.items():
            if expires_at <= now:
                yield from self._of(credential.kind, credential.id)
        later = [expires_at for expires_at in self._expiries.values() if expires_at > now]
        self._next_expiry = min(later, default=None)

    def ids(self) -> dict[CredentialKind, list[str]]:
        """The ids of all credentials, by kind."""
        return {kind: list(readers) for kind, readers in self._readers.items() if readers}

    def of(self, kind: CredentialKind, ids: Iterable[str]) -> Iterator[Reader]:
        """The readers of these credentials."""
        for credential_id in ids:
            yield from self._of(kind, credential_id)

    def _of(self, kind: CredentialKind, credential_id: str) -> set[Reader]:
        return self._readers.get(kind, {}).get(credential_id, set())

"""Credentials that sent a signal within the last minute, in the memory of this process.

Only requests that send a signal read it. An entry is a row as the database returned it: a token's
record, or the records of an owner's secrets with their ciphertext. It holds no token's value, no
secret's text, and nothing about a credential that does not exist.

An entry may be out of date, because another server may end a credential. So it is only good for
being accepted: whether a signal's credential is valid is decided under the log's lock. Before
anything else is answered, the credential is read again (``tokens.callers.authentication``).
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from tokens.choices import Source
from tokens.models import SigningSecret, Token

LIFETIME = timedelta(minutes=1)
MAX_ENTRIES = 4096

# The owner of a secret: the source and, for an automation's, the bot's id.
Owner = tuple[Source, str | None]

Key = TypeVar("Key")
Row = TypeVar("Row")


class CredentialCache(Generic[Key, Row]):
    """Rows by key. When it is full, the row that was not used for the longest time is dropped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: OrderedDict[Key, tuple[datetime, Row]] = OrderedDict()

    def get(self, key: Key, now: datetime) -> Row | None:
        with self._lock:
            read_at, row = self._rows.get(key, (None, None))
            if read_at is None or not timedelta(0) <= now - read_at < LIFETIME:
                return None
            self._rows.move_to_end(key)
            return row

    def put(self, key: Key, row: Row, read_at: datetime) -> None:
        """Stores a row that was read, or whose use was noted, at ``read_at``."""
        with self._lock:
            self._rows[key] = read_at, row
            self._rows.move_to_end(key)
            if len(self._rows) > MAX_ENTRIES:
                self._rows.popitem(last=False)

    def drop(self, key: Key) -> None:
        with self._lock:
            self._rows.pop(key, None)

    def drop_where(self, is_meant: Callable[[Key, Row], bool]) -> None:
        with self._lock:
            for key in [key for key, (_, row) in self._rows.items() if is_meant(key, row)]:
                del self._rows[key]


# By the digest of the token's value under the first key.
tokens: CredentialCache[str, Token] = CredentialCache()
secrets: CredentialCache[Owner, list[SigningSecret]] = CredentialCache()


def forget_token(token: Token) -> None:
    """Drops a token that this process changed."""
    tokens.drop_where(lambda _, cached: cached.public_id == token.public_id)


def forget_secrets(changed: Sequence[SigningSecret]) -> None:
    """Drops the secrets of the owners of which this process changed one.

    The Floor's secrets may stand in for those of Nox, so both are dropped together.
    """
    bots = {secret.automation_id for secret in changed}
    secrets.drop_where(lambda owner, _: owner[1] in bots)

"""Reads the credentials that a request presents: from the database or, for a signal, the cache."""

from datetime import datetime
from typing import Any

from django.utils import timezone

from events.writer_queue import try_write_lock
from tokens.callers import credential_cache as cache
from tokens.callers import statements
from tokens.choices import Source
from tokens.crypto import keys
from tokens.models import SigningSecret, Token

LAST_USED_INTERVAL = cache.LIFETIME


class CredentialReader:
    """Reads the credentials of one request.

    ``cached`` allows the cache of this process: only for a request that sends a signal, because
    only a signal's credential is checked again under the log's lock. ``notes_use`` stores when a
    token was used.
    """

    def __init__(self, *, cached: bool = False, notes_use: bool = True) -> None:
        self._may_cache = self._reads_cache = cached
        self._notes_use = notes_use
        self.used_cache = False

    def read_again(self) -> bool:
        """Reads from the database from now on. Returns False if the cache was not used anyway."""
        used_cache, self.used_cache, self._reads_cache = self.used_cache, False, False
        return used_cache

    def token(self, value: str) -> Token | None:
        """The active token with this value."""
        now, (digest, key_id) = timezone.now(), keys.new_digest(value)
        token = cache.tokens.get(digest, now) if self._reads_cache else None
        if token is not None:
            self.used_cache = True
            return token
        token = statements.find_active_token(keys.all_digests(value), now)
        if token is None:
            cache.tokens.drop(digest)
            return None
        if self._notes_use and not _used_recently(token, now):
            _update_last_used(token, now, digest, key_id)
        if self._may_cache and token.last_used_at is not None:
            cache.tokens.put(digest, token, token.last_used_at)
        return token

    def secrets(self, source: Any, bot_id: Any) -> list[SigningSecret]:
        """The live secrets that may sign for this source and bot."""
        now, owner = timezone.now(), _owner(source, bot_id)
        if owner is None:
            return []
        found = cache.secrets.get(owner, now) if self._reads_cache else None
        if found is not None:
            self.used_cache = True
            return found
        found = _candidates(owner, now)
        if self._may_cache:
            cache.secrets.put(owner, found, now) if found else cache.secrets.drop(owner)
        return found


def _used_recently(token: Token, now: datetime) -> bool:
    return token.last_used_at is not None and token.last_used_at > now - LAST_USED_INTERVAL


def _update_last_used(token: Token, now: datetime, digest: str, key_id: str) -> None:
    """Stores the time of use, and the digest under the first key, at most once a minute.

    During a rolling restart, servers may list their keys in different orders. Each would replace
    the other's digest at every request if the digest were updated more often.
    """
    with try_write_lock() as free:
        if free:
            use = {"last_used_at": now, "digest": digest, "key_id": key_id}
            Token.objects.filter(pk=token.pk).update(**use)
            token.last_used_at = now


def _owner(source: Any, bot_id: Any) -> cache.Owner | None:
    """Whose secrets may sign. None if there is no such source, or no bot is named."""
    if source == Source.TRADINGVIEW:
        return (Source.TRADINGVIEW, bot_id) if isinstance(bot_id, str) else None
    return (Source(source), None) if source in (Source.FLOOR, Source.NOX) else None


def _candidates(owner: cache.Owner, now: datetime) -> list[SigningSecret]:
    source, bot_id = owner
    if bot_id is not None:
        return statements.live_secrets(bot_id, now)
    if source == Source.NOX and not SigningSecret.objects.of(Source.NOX).exists():
        return live_secrets_of(Source.FLOOR, now)
    return live_secrets_of(source, now)


def live_secrets_of(source: Source, now: datetime) -> list[SigningSecret]:
    """The live secrets of a shared source."""
    return list(SigningSecret.objects.live(now).of(source))

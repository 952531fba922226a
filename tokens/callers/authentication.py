"""Authentication by Bearer token or by session (contract, section 3).

``request.auth`` is the credential that authorises the request. For a session it is None and
``request.user`` is the user. Each class raises its own refusal, so every view has an authenticated
caller. Who signs a signal is checked in ``signals.intake.authentication``.
"""

from datetime import datetime

from django.http import QueryDict
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, CSRFCheck
from rest_framework.request import Request

from desks.models import User
from events.confirmation import unconfirmed
from events.databases import reads_replica
from events.http.refusals import (
    CredentialsMissing,
    CsrfFailed,
    SchemeUnknown,
    SignInRequired,
    TokenInvalid,
)
from events.writer_queue import try_write_lock
from tokens.callers import credential_cache as cache
from tokens.callers import uses
from tokens.callers.statements import find_active_token
from tokens.callers.throttling import count_failure
from tokens.choices import Source
from tokens.crypto import formats, keys
from tokens.models import SigningSecret, Token

BEARER = "bearer"
LAST_USED_INTERVAL = cache.LIFETIME
# What a secret's record needs to verify a signature and to be the caller.
SECRET_FIELDS = ("ciphertext", "key_id", "public_id", "source", "automation__desk__public_id")


def read_bearer(request: Request) -> str | None:
    """The Bearer token, with its checksum verified; None if there is no ``Authorization``.

    Raises ``TokenInvalid`` for any other header.
    """
    header = request.headers.get("Authorization")
    if header is None:
        return None
    scheme, _, value = header.partition(" ")
    if scheme.lower() != BEARER:
        raise count_failure(request, SchemeUnknown())
    value = value.lstrip(" ")
    if not formats.is_credential(value, formats.DESK_TOKEN, formats.PLATFORM_TOKEN):
        raise count_failure(request, TokenInvalid())
    return value


class CredentialReader:
    """Reads the credentials of one request.

    ``cached`` allows the cache of this process: only for a request that sends a signal, because
    only a signal's credential is checked again under the log's lock. ``notes_use`` stores when a
    token was used. ``tried`` are the rows of cached secrets, none of which made the signature.
    """

    def __init__(self, *, cached: bool = False, notes_use: bool = True) -> None:
        self._may_cache = self._reads_cache = cached
        self._notes_use = notes_use
        self.used_cache = False
        self.tried: list[tuple[str, bytes]] | None = None

    def read_again(self) -> bool:
        """Reads from the database from now on. Returns False if nothing came from the cache.

        What is read renews the cache, so that only the first request with a credential that ended
        elsewhere comes as far as the log's lock.
        """
        used_cache, self.used_cache, self._reads_cache = self.used_cache, False, False
        return used_cache

    def confirm(self) -> None:
        """Notes that the database has the cached credential, too: it need not be read again."""
        self.used_cache = False

    def token(self, request: Request, value: str, *, authorises: bool = True) -> Token:
        """The active token with this value.

        One that authorises nothing is not checked again under the log's lock, so no cache is asked.
        Raises ``TokenInvalid``, which is the same for an unknown, a revoked and an expired token.
        """
        now, (digest, key_id) = timezone.now(), keys.new_digest(value)
        token = cache.tokens.get(digest, now) if self._reads_cache and authorises else None
        if token is not None:
            self.used_cache = True
            return token
        token = find_active_token(keys.all_digests(value), now)
        if token is None:
            cache.tokens.drop(digest)
            raise count_failure(request, TokenInvalid())
        if self._notes_use and not _used_recently(token, now):
            _update_last_used(token, now, digest, key_id)
        if self._may_cache and token.last_used_at is not None:
            cache.tokens.put(digest, token, token.last_used_at)
        return token

    def secrets(self, source: object, bot_id: object) -> list[SigningSecret]:
        """The live secrets that may sign for this source and bot."""
        now, owner = timezone.now(), _owner(source, bot_id)
        if owner is None:
            return []
        found = cache.secrets.get(owner, now) if self._reads_cache else None
        if found is not None:
            self.used_cache = True
            return found
        found = live_secrets(owner, now)
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
    if reads_replica():
        uses.add(token.pk, now, digest, key_id)
        return
    with try_write_lock() as free:
        if free:
            use = {"last_used_at": now, "digest": digest, "key_id": key_id}
            with unconfirmed():
                Token.objects.filter(pk=token.pk).update(**use)
            token.last_used_at = now


def _owner(source: object, bot_id: object) -> cache.Owner | None:
    """Whose secrets may sign. None if there is no such source, or no bot is named."""
    if source == Source.TRADINGVIEW:
        return (Source.TRADINGVIEW, bot_id) if isinstance(bot_id, str) else None
    if isinstance(source, str) and source in (Source.FLOOR, Source.NOX):
        return Source(source), None
    return None


def live_secrets(owner: cache.Owner, now: datetime) -> list[SigningSecret]:
    """The live secrets of an owner. The Floor's stand in until Nox has had a secret."""
    source, bot_id = owner
    if source == Source.NOX and not SigningSecret.objects.of(Source.NOX).exists():
        source = Source.FLOOR
    live = SigningSecret.objects.of(source, bot_id).live(now)
    return list(live.select_related("automation__desk").only(*SECRET_FIELDS))


class BearerAuthentication(BaseAuthentication):
    """Accepts only ``Authorization: Bearer <token>``."""

    def __init__(self, reader: CredentialReader | None = None) -> None:
        self.reader = reader or CredentialReader()

    def authenticate(self, request: Request) -> tuple[None, Token]:
        value = read_bearer(request)
        if value is None:
            raise CredentialsMissing
        return None, self.reader.token(request, value)


class SessionOrBearerAuthentication(BaseAuthentication):
    """Accepts a Bearer token, or a session (with a CSRF check) if there is no ``Authorization``.

    Only a session may call the methods in ``session_only``.
    """

    def __init__(self, session_only: tuple[str, ...] = ("POST",)) -> None:
        self.session_only = session_only

    def authenticate(self, request: Request) -> tuple[User | None, Token | None]:
        value = read_bearer(request)
        if value is not None:
            token = CredentialReader().token(request, value)
            if request.method in self.session_only:
                raise SignInRequired
            return None, token
        user = request._request.user
        if not isinstance(user, User):
            raise SignInRequired if request.method in self.session_only else CredentialsMissing
        _check_csrf(request)
        return user, None


def _check_csrf(request: Request) -> None:
    request._request.POST = QueryDict()  # read the CSRF token from the header, never from the body
    check = CSRFCheck(lambda _: None)  # type: ignore[arg-type]
    check.process_request(request._request)
    if check.process_view(request._request, None, (), {}):  # type: ignore[arg-type]
        raise CsrfFailed

"""Sessions, and who is signed in.

Sessions are encrypted at rest: they hold the seed of a second factor during its set-up.

A session is encrypted with the first of ``SECRET_KEYS`` and signed with ``SECRET_KEY``. It is
verified and decrypted with every key.
"""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import cast

from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, get_user
from django.contrib.auth import middleware as auth
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.backends import db
from django.contrib.sessions.backends.base import UpdateError
from django.contrib.sessions.base_session import AbstractBaseSession
from django.core import signing
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from config.problems import UNAVAILABLE_ERRORS
from desks.models import User
from events.confirmation import unconfirmed
from events.http.requests import state_of
from events.json_schema import JsonObject
from events.times import zone_named
from tokens.callers.staff import SIGNED_IN_AT, session_end
from tokens.crypto import keys

BOUND_TO = "session"
USE_NOTED_EVERY = timedelta(minutes=5)
MAX_SESSIONS = 20  # of one user


class SealedSerializer:
    """JSON, encrypted with ``SECRET_KEYS``. A session that no key decrypts is ignored."""

    def dumps(self, remembered: JsonObject) -> bytes:
        sealed, made_with = keys.encrypt(json.dumps(remembered), BOUND_TO)
        return made_with.encode() + sealed

    def loads(self, kept: bytes) -> JsonObject:
        made_with, sealed = kept[: keys.KEY_ID_CHARACTERS], kept[keys.KEY_ID_CHARACTERS :]
        remembered: JsonObject = json.loads(keys.decrypt(sealed, BOUND_TO, made_with.decode()))
        return remembered


class SessionStore(db.SessionStore):
    """Django's session store, except for a database that fails while a session is saved.

    Django reports that as a session that was deleted, which would blame the client.
    """

    def save(self, must_create: bool = False) -> None:
        try:
            super().save(must_create)
        except UpdateError as gone:
            if isinstance(gone.__context__, UNAVAILABLE_ERRORS):
                raise gone.__context__ from None
            raise


class FirstKey:
    """Deserializes a session to whether it is encrypted with the first of ``SECRET_KEYS``."""

    def loads(self, kept: bytes) -> bool:
        first = keys.key_id(settings.SECRET_KEYS[0])
        return kept[: keys.KEY_ID_CHARACTERS] == first.encode()


def sessions() -> QuerySet[AbstractBaseSession]:
    """Returns the sessions that have not expired."""
    model = SessionStore.get_model_class()
    return model.objects.filter(expire_date__gt=timezone.now()).order_by("pk")


def sessions_of(user: User) -> list[UserSession]:
    """Returns the sessions that are signed in as the user, the last used first, in two statements.

    A session that another password or another ``SECRET_KEY`` has ended is not among them.
    """
    last_used = UserSession.objects.filter(user=user).order_by("-last_seen_at", "-pk")
    of_user = {each.session_key: each for each in last_used}
    store = SessionStore()
    hashes = {user.get_session_auth_hash(), *user.get_session_auth_fallback_hash()}
    live = {
        session.pk
        for session in sessions().filter(pk__in=of_user)
        if store.decode(session.session_data).get(HASH_SESSION_KEY) in hashes
    }
    return [each for key, each in of_user.items() if key in live]


def make_room_for_session(user: User) -> None:
    """Ends all but the sessions used last, so that the one that begins now is within the limit."""
    for too_many in sessions_of(user)[MAX_SESSIONS - 1 :]:
        too_many.end()


def reseal_sessions() -> Iterator[bool]:
    """Encrypts and signs every session with the first keys. Yields True for each one that changed.

    A session that is saved at the same time keeps its new value. A session that no key decrypts is
    left alone.
    """
    store = SessionStore()
    for session in sessions().iterator():
        before = session.session_data
        remembered = {} if _on_first_keys(before) else store.decode(before)
        yield bool(remembered) and _replace(session.pk, before, store.encode(remembered))


def _on_first_keys(kept: str) -> bool:
    try:
        found: bool = signing.loads(
            kept,
            salt=SessionStore().key_salt,
            serializer=FirstKey,  # type: ignore[arg-type]
            fallback_keys=[],
        )
    except signing.BadSignature:
        return False
    return found


def _replace(key: str, before: str, after: str) -> bool:
    return bool(sessions().filter(pk=key, session_data=before).update(session_data=after))


class AuthenticationMiddleware(auth.AuthenticationMiddleware):
    """Django's middleware, except that expired staff sessions are anonymous."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Deactivates the user's time zone at the end: the thread serves others next."""
        try:
            return cast(HttpResponseBase, super().__call__(request))
        finally:
            timezone.deactivate()

    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        request.user = SimpleLazyObject(lambda: _user(request))  # type: ignore[assignment]


def _user(request: HttpRequest) -> User | AnonymousUser:
    """Returns the signed-in user. Ends a staff session that is too old."""
    user: User | AnonymousUser = get_user(request)
    end = session_end(request, user)
    if end is not None and timezone.now() > end:
        request.session.flush()
        return AnonymousUser()
    state_of(request).user_pk = user.pk
    if isinstance(user, User):
        _note_use(request)
        if user.time_zone:
            timezone.activate(zone_named(user.time_zone))
    return user


def _note_use(request: HttpRequest) -> None:
    """Saves when the session was last used, at most every five minutes. A sign-in saves it."""
    now = timezone.now()
    before = now - USE_NOTED_EVERY
    if request.session.get(SIGNED_IN_AT, 0) > before.timestamp():
        return
    due = UserSession.objects.filter(
        session_key=request.session.session_key, last_seen_at__lte=before
    )
    if due.exists():  # with SQLite, an UPDATE waits for other writers also if it finds no row
        with unconfirmed():
            due.update(last_seen_at=now)

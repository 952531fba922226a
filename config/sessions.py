"""What a session remembers, encrypted at rest: the seed of a second factor that is being added."""

import json
from typing import Any

from django.contrib.sessions.backends import db
from django.contrib.sessions.backends.base import UpdateError

from config.problems import AWAY
from tokens import keys

BOUND_TO = "session"


class SealedSerializer:
    """JSON under the keys of signing secrets. What no key opens is a session of nobody's."""

    def dumps(self, remembered: dict[str, Any]) -> bytes:
        sealed, made_with = keys.encrypt(json.dumps(remembered), BOUND_TO)
        return made_with.encode() + sealed

    def loads(self, kept: bytes) -> dict[str, Any]:
        made_with, sealed = kept[: keys.KEY_ID_CHARACTERS], kept[keys.KEY_ID_CHARACTERS :]
        remembered: dict[str, Any] = json.loads(keys.decrypt(sealed, BOUND_TO, made_with.decode()))
        return remembered


class SessionStore(db.SessionStore):
    """The framework's, but for a database that goes away while a session is saved.

    The framework takes that for a session that somebody ended, which would be the sender's fault.
    """

    def save(self, must_create: bool = False) -> None:
        try:
            super().save(must_create)
        except UpdateError as gone:
            if isinstance(gone.__context__, AWAY):
                raise gone.__context__ from None
            raise

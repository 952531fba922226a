"""Which database Django's queries use in a live server that reads a replica."""

from typing import Any

from django.db.models import Model

from desks.models import User
from events.databases import PRIMARY

# A session that was written a moment ago must be there, with its user as it was then: the session
# of a user whose password differs would be ended.
ACCOUNTS = ("sessions", "usersessions", "account", "mfa")


class Router:
    """Accounts are read at the primary, all else at the replica. Everything is written there."""

    def db_for_read(self, model: type[Model], **hints: Any) -> str | None:
        is_account = model is User or model._meta.app_label in ACCOUNTS
        return PRIMARY if is_account else None

    def db_for_write(self, model: type[Model], **hints: Any) -> str:
        return PRIMARY

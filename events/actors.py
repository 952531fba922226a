"""Who caused an event: a customer, a member of the staff, a credential, or the service itself."""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, TypedDict

from django.db import models

from events.json_schema import EXAMPLE_USER_ID, Example, one_of, pattern


class ActorType(models.TextChoices):
    """The kind of an actor. It determines where the actor's id comes from."""

    USER = "user"  # the userId of the customer's desk, usr_…
    STAFF = "staff"  # the public id of a member of the staff, stf_…
    TOKEN = "token"  # noqa: S105 - the id of a token, tok_…
    SECRET = "secret"  # noqa: S105 - the id of a signing secret, sec_…
    SYSTEM = "system"  # the service itself, such as a command; it has no id


class ActorRecord(TypedDict):
    """The actor: who caused an event."""

    type: Annotated[str, one_of(ActorType.values)]
    id: Annotated[
        Annotated[str, pattern("(usr|stf|tok|sec)_[0-9A-Za-z]+")] | None,
        "The userId of the desk, or the id of the staff member, token or secret; null for system.",
        Example(EXAMPLE_USER_ID),
    ]


class Actor(NamedTuple):
    """Who caused an event. An unauthenticated caller is None instead of an Actor.

    ``type`` is an ``ActorType``, or one that only a later release knows.
    """

    type: str
    id: str | None

    def to_dict(self) -> ActorRecord:
        """The actor as the API shows it."""
        return {"type": str(self.type), "id": self.id}


SYSTEM = Actor(ActorType.SYSTEM, None)


def is_own(actor: Actor, content: Mapping[str, Any]) -> bool:
    """Whether the actor of an event is the desk's own user, token or bot's secret.

    ``content`` is the event's: ``{"signal": …, "data": …}``. A desk sees no other actor.
    """
    data, signal = content["data"], content["signal"]
    if actor.type == ActorType.SECRET:
        return bool((signal or data).get("botId"))
    if actor.type == ActorType.TOKEN:
        return bool(data.get("id") == actor.id)  # the token revoked itself
    return actor.type == ActorType.USER

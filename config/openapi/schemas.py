"""The schema of the catalog, and its description."""

from desks.api.schemas import PublishedCard
from events.http.json_schema import STRING
from events.http.schemas import Field, Paper, Schema, operation

NAMES = (
    "catalog",
    "me",
    "desks",
    "readyDesks",
    "connectedDesks",
    "desk",
    "deploy",
    "events",
    "tokens",
    "token",
    "revoke",
    "signal",
    "signalContract",
)


class ForUsers(Schema):
    """First steps of a user."""

    mint = Field(STRING)
    pull = Field(STRING)
    webhook = Field(STRING)


class ForEngine(Schema):
    """First steps of an engine."""

    mint = Field(STRING)
    pull = Field(STRING)
    oneDesk = Field(STRING)
    deploy = Field(STRING)
    fanout = Field(STRING)


class Plug(Schema):
    """The interface for an engine."""

    publishedCard = PublishedCard(allow_null=True)
    pull = Field(STRING)
    oneUser = Field(STRING)
    push = Field(STRING)
    events = Field(STRING)
    headers = Field({"type": "array", "items": STRING})
    note = Field(STRING)


class Catalog(Paper):
    """What there is, and how one begins."""

    law = Field(STRING)
    paths = Field(
        {"type": "object", "properties": dict.fromkeys(NAMES, STRING), "required": list(NAMES)},
        "A name for each thing that can be asked, with its method and path.",
    )
    auth = Field(STRING)
    forUsers = ForUsers()
    forEngine = ForEngine()
    plug = Plug()


read_catalog = operation(
    "readCatalog",
    "Read the catalog",
    "What there is, and how one begins. Public.",
    tag="Catalog",
    response=Catalog,
)

"""The shape of the catalog, and how it describes itself."""

from desks.api.schemas import PublishedCard
from events.api.schemas import TEXT, Field, Paper, Shape, operation

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


class ForUsers(Shape):
    """How a user begins."""

    mint = Field(TEXT)
    pull = Field(TEXT)
    webhook = Field(TEXT)


class ForEngine(Shape):
    """How an engine begins."""

    mint = Field(TEXT)
    pull = Field(TEXT)
    oneDesk = Field(TEXT)
    deploy = Field(TEXT)
    fanout = Field(TEXT)


class Plug(Shape):
    """What an engine plugs into."""

    publishedCard = PublishedCard(allow_null=True)
    pull = Field(TEXT)
    oneUser = Field(TEXT)
    push = Field(TEXT)
    events = Field(TEXT)
    headers = Field({"type": "array", "items": TEXT})
    note = Field(TEXT)


class Catalog(Paper):
    """What there is, and how one begins."""

    law = Field(TEXT)
    paths = Field(
        {"type": "object", "properties": dict.fromkeys(NAMES, TEXT), "required": list(NAMES)},
        "A name for each thing that can be asked, with its method and path.",
    )
    auth = Field(TEXT)
    forUsers = ForUsers()
    forEngine = ForEngine()
    plug = Plug()


read_catalog = operation(
    "readCatalog",
    "Read the catalog",
    "What there is, and how one begins. Public.",
    tag="Catalog",
    answer=Catalog,
)

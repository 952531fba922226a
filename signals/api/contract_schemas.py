"""The shape of the contract page."""

from desks.api.schemas import PublishedCard
from events.api.schemas import OBJECT, TEXT, Field, Paper, Shape


class Sample(Shape):
    """A body that is accepted once ids and nonce are filled in."""

    note = Field(TEXT)
    path = Field(TEXT)
    body = Field(OBJECT)


class Vector(Shape):
    """A worked example, to check an implementation against."""

    secret = Field(TEXT)
    timestamp = Field(TEXT)
    body = Field(TEXT)
    signature = Field(TEXT)


class Signing(Shape):
    """How to sign."""

    algorithm = Field(TEXT)
    key = Field(TEXT)
    message = Field(TEXT)
    signature = Field(TEXT)
    timestamp = Field(TEXT)
    toleranceSeconds = Field({"type": "integer", "minimum": 1})
    vector = Vector()


class RefusalMeaning(Shape):
    """A code that the service refuses with, and what it means."""

    code = Field(TEXT)
    status = Field({"type": "integer"})
    title = Field(TEXT)
    detail = Field(TEXT)


class Contract(Paper):
    """What a sender needs to know."""

    path = Field(TEXT)
    url = Field({"type": "string", "format": "uri"})
    headers = Field({"type": "array", "items": TEXT})
    law = Field(TEXT)
    tv = Sample()
    fanout = Sample()
    oneDesk = Sample()
    oneUser = Sample()
    floor = Sample()
    nox = Sample()
    publishedCard = PublishedCard(allow_null=True)
    signing = Signing()
    refusals = RefusalMeaning(many=True)

"""The schema of the contract page."""

from desks.api.schemas import PublishedCard
from events.http.json_schema import OBJECT, STRING
from events.http.schemas import Field, Paper, Schema


class Sample(Schema):
    """A sample body. It is accepted once the ids and the nonce are filled in."""

    note = Field(STRING)
    path = Field(STRING)
    body = Field(OBJECT)


class Vector(Schema):
    """A test vector, to check an implementation against."""

    secret = Field(STRING)
    timestamp = Field(STRING)
    body = Field(STRING)
    signature = Field(STRING)


class Signing(Schema):
    """How to sign."""

    algorithm = Field(STRING)
    key = Field(STRING)
    message = Field(STRING)
    signature = Field(STRING)
    timestamp = Field(STRING)
    toleranceSeconds = Field({"type": "integer", "minimum": 1})
    vector = Vector()


class RefusalMeaning(Schema):
    """The code of a refusal, and what it means."""

    code = Field(STRING)
    status = Field({"type": "integer"})
    title = Field(STRING)
    detail = Field(STRING)


class Contract(Paper):
    """Everything a sender needs to know."""

    path = Field(STRING)
    url = Field({"type": "string", "format": "uri"})
    headers = Field({"type": "array", "items": STRING})
    law = Field(STRING)
    tv = Sample()
    fanout = Sample()
    oneDesk = Sample()
    oneUser = Sample()
    floor = Sample()
    nox = Sample()
    publishedCard = PublishedCard(allow_null=True)
    signing = Signing()
    refusals = RefusalMeaning(many=True)

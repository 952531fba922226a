"""The schema of the contract."""

from desks.api.schemas import PublishedCard
from events.http.json_schema import OBJECT, STRING
from events.http.schemas import Field, Paper, Schema


class Sample(Schema):
    """A sample body. It is accepted once the ids and the nonce are filled in."""

    note = path = Field(STRING)
    body = Field(OBJECT)


class Vector(Schema):
    """A test vector, to check an implementation against."""

    secret = timestamp = body = signature = Field(STRING)


class Signing(Schema):
    """How to sign."""

    algorithm = key = message = signature = timestamp = Field(STRING)
    toleranceSeconds = Field({"type": "integer", "minimum": 1})
    vector = Vector()


class RefusalMeaning(Schema):
    """The code of a refusal, and what it means."""

    code = Field(STRING)
    status = Field({"type": "integer"})
    title = detail = Field(STRING)


class Contract(Paper):
    """Everything a sender needs to know."""

    path = Field(STRING)
    url = Field({"type": "string", "format": "uri"})
    headers = Field({"type": "array", "items": STRING})
    law = Field(STRING)
    tv = fanout = oneDesk = oneUser = floor = nox = Sample()
    publishedCard = PublishedCard(allow_null=True)
    signing = Signing()
    refusals = RefusalMeaning(many=True)

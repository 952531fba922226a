"""The bodies of signals for the OpenAPI document: the shapes that read them, and the samples."""

import json
from typing import Any

from drf_spectacular.utils import OpenApiExample, PolymorphicProxySerializer

from desks.api.schemas import EXAMPLE_BOT_ID, EXAMPLE_USER_ID
from desks.choices import Direction
from events.http.schemas import Field, Schema
from signals.contract import document as sample
from signals.law import shapes
from signals.law.shapes import Shape
from tokens.choices import Source


def described(shape: Shape) -> type[Schema]:
    """Returns the schema of a shape."""
    fields = {
        name: Field(
            member.schema,
            member.description,
            required=member.is_required,
            allow_null=not member.is_required,
        )
        for name, member in shape.members.items()
    }
    return type(shape.name, (Schema,), {"__doc__": shape.description, **fields})


DEPLOY_SIGNAL = described(shapes.DEPLOY)
FLOOR_SIGNAL = PolymorphicProxySerializer(
    "FloorSignal",
    [described(shapes.ONE_DESK), described(shapes.FANOUT)],
    resource_type_field_name=None,
)
PUSHED_SIGNAL = PolymorphicProxySerializer(
    "PushedSignal",
    {
        Source.TRADINGVIEW.value: described(shapes.AUTOMATION),
        Source.FLOOR.value: FLOOR_SIGNAL,
        Source.NOX.value: described(shapes.NOX),
    },
    resource_type_field_name="source",
)

# --- Examples ------------------------------------------------------------------------------------

ELECTED = {"pair": "BTC/USDT", "direction": Direction.LONG.value}
FILLED_IN = {
    sample.NONCE: "20261120-0930-1",
    sample.BOT_ID: EXAMPLE_BOT_ID,
    sample.USER_ID: EXAMPLE_USER_ID,
    "<trace>": "20261120-0930",
}


def _filled_in(body: dict[str, Any]) -> dict[str, Any]:
    """Returns a sample body of the contract with its placeholders filled in."""
    text = json.dumps(body)
    for place, value in FILLED_IN.items():
        text = text.replace(place, value)
    filled: dict[str, Any] = json.loads(text)
    return filled


def _examples(**names: str) -> list[OpenApiExample]:
    """Returns the named samples of the contract as examples, each with its title."""
    bodies = sample.bodies(ELECTED)
    return [
        OpenApiExample(
            title, _filled_in(bodies[name]), request_only=True, summary=sample.NOTES[name]
        )
        for name, title in names.items()
    ]


DEPLOY_EXAMPLES = _examples(oneDesk="Deploy")
PUSH_EXAMPLES = _examples(
    tv="Automation", fanout="Fanout", oneUser="OneUser", floor="Floor", nox="Nox"
)

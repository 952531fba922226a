"""The parameters by which a signal is found, and the bodies of signals for the OpenAPI document.

The bodies are described by the shapes that read them, and by the samples of the contract.
"""

import json
from typing import Any

from drf_spectacular.utils import OpenApiExample, PolymorphicProxySerializer
from rest_framework import serializers

from desks.api.schemas import EXAMPLE_BOT_ID, EXAMPLE_USER_ID
from desks.choices import Direction
from events.http.parameters import MAX_TEXT_LENGTH, StrictSerializer
from events.http.schemas import Field, Schema
from signals.contract import document as sample
from signals.law import shapes
from signals.law.shapes import Shape
from tokens.choices import Source


class SignalParameters(StrictSerializer):
    """The parameters that find a signal: its nonce, and who sent it (contract, section 4)."""

    nonce = serializers.RegexField(
        rf"^[{shapes.VISIBLE}]+\Z",  # $ would let a newline follow
        max_length=shapes.MAX_NONCE_LENGTH,
        trim_whitespace=False,
        help_text="The nonce of the signal; for Nox its action_id.",
    )
    source = serializers.ChoiceField(  # type: ignore[assignment]
        [Source.FLOOR.value, Source.NOX.value],
        required=False,
        help_text="Who sent it, if it was not a bot. Only for platform tokens.",
    )
    botId = serializers.CharField(
        max_length=MAX_TEXT_LENGTH,
        required=False,
        help_text="The bot that sent it. A desk token always names one of its own bots.",
    )

    def validate(self, data: dict[str, Any]) -> dict[str, Any]:
        if "source" in data and "botId" in data:
            raise serializers.ValidationError({"botId": "Send either source or botId."})
        if "source" not in data and "botId" not in data:
            raise serializers.ValidationError({"botId": "Send botId, or source if no bot sent it."})
        return data


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

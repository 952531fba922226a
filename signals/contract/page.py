"""The contract as a page, for people (contract, section 4).

Everything that the page says of shapes, samples, refusals, parameters and limits is read from where
the service itself takes it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.template.loader import render_to_string
from django.urls import reverse
from rest_framework import serializers

from events.api import MAX_WAIT, FeedParameters
from events.http.rate_limits import OFF
from events.http.refusals import FieldCode
from events.http.requests import json_weight, media_weights
from events.json_schema import JsonObject
from events.kinds import Kind
from signals.contract import sample_code
from signals.contract.document import ANY_PAIR, BOT_ID, NONCE, USER_ID, contract
from signals.law import signal_body

KIBIBYTE = 1024
NO_LIMIT = "no limit"
TOKEN = "$SVC_TOKEN"  # noqa: S105 - a variable of the shell, which the page replaces by what is typed
SHELL_NONCE = "'\"$nonce\"'"  # a variable, in JSON that the shell has in single quotes


@dataclass(frozen=True, slots=True)
class Row:
    """One member of a body, or one parameter: its name, values and description."""

    name: str
    values: str
    description: str
    is_required: bool = False


# The customer's four shapes: anchor, title, shape of the law, names of the contract's samples.
SHAPES = (
    ("automation", "1. One bot", signal_body.AUTOMATION, ("tv",)),
    ("one-desk", "2. One desk", signal_body.ONE_DESK, ("oneDesk", "floor")),
    ("fan-out", "3. Every ready desk", signal_body.FANOUT, ("fanout", "oneUser")),
    ("nox", "4. Nox", signal_body.NOX, ("nox",)),
)

# What each limit of the settings counts.
LIMITS = {
    "automation": "Signals of one bot, sent or checked",
    "platform": "Signals of one platform token or shared secret, sent or checked",
    "reads": "Reads with one desk token",
    "large_reads": "Those of them that ask for more than 100 items",
    "failures": "Failed credentials of one address. A valid credential is never refused for it",
    "minting": "Tokens and signing secrets that one user makes, and exports",
    "destinations": "Webhooks, secrets of webhooks, and chats that one user makes",
    "changes": "Requests of one user that change something, refused ones too",
    "rewinds": "Requests of one user to send a webhook's events again",
    "desk": "What the owner and the bots of one desk write to the log",
    "desk_day": "What they write to the log in a day",
    "pages": "Page views of one signed-in user; messages that one address tries on the home page",
}


def contract_page() -> str:
    """Returns the page. It is the same for every visitor: it reads no session and no request."""
    document = contract()
    context = {
        "contract": document,
        "base": settings.BASE_URL,
        "shapes": [_shape(document, *shape) for shape in SHAPES],
        "engine": {
            name: json.dumps(document[name]["body"], indent=2).replace(NONCE, SHELL_NONCE)
            for name in ("oneDesk", "fanout")
        },
        "client_url": settings.BASE_URL + reverse("client"),
        "quickstart": sample_code.push(document["url"], BOT_ID, None),
        "placeholders": {
            "bot": BOT_ID,
            "secret": sample_code.SECRET,
            "pair": ANY_PAIR,
            "direction": sample_code.ANY_DIRECTION,
            "token": TOKEN,
            "user": USER_ID,
        },
        "feed": [
            Row(name, _taken(field), str(field.help_text))
            for name, field in FeedParameters().fields.items()
        ],
        "kinds": Kind.values,
        "max_wait": MAX_WAIT,
        "limits": _limits(),
        "field_codes": list(FieldCode),
    }
    return render_to_string("contract/page.html", context)


# --- Shapes --------------------------------------------------------------------------------------


def _shape(
    document: Mapping[str, Any],
    anchor: str,
    title: str,
    shape: signal_body.Shape,
    names: tuple[str, ...],
) -> dict[str, object]:
    return {
        "anchor": anchor,
        "title": title,
        "description": shape.description.replace("``", ""),
        "samples": [
            {**document[name], "name": name, "text": json.dumps(document[name]["body"], indent=2)}
            for name in names
        ],
        "members": [
            Row(name, _values(member.schema), member.description, member.is_required)
            for name, member in shape.members.items()
        ],
    }


def _values(schema: JsonObject) -> str:
    """Returns the values that a JSON schema takes, in words."""
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " or ".join(json.dumps(value) for value in schema["enum"])
    longest = schema.get("maxLength")
    return f"{schema['type']}, at most {longest} characters" if longest else schema["type"]


# --- The feed and the limits ---------------------------------------------------------------------


def _taken(field: serializers.Field[Any, Any, Any, Any]) -> str:
    """Returns the values that a query parameter takes, in words."""
    match field:
        case serializers.IntegerField():
            return f"{field.min_value} to {field.max_value}, {field.default} by default"
        case serializers.ListField():
            return "a kind of event"
        case serializers.ChoiceField():
            return f"{' or '.join(field.choices)}, {field.default} by default"
        case serializers.DateTimeField():
            return "a time of RFC 3339"
    return "text"


def _limits() -> list[tuple[str, str]]:
    """Each limit: how much, and of what."""
    streams = settings.LIMIT_STREAMS
    return [
        (f"{settings.DATA_UPLOAD_MAX_MEMORY_SIZE // KIBIBYTE} KiB", "A request's body"),
        (
            f"{settings.TIMESTAMP_TOLERANCE} s",
            "How old a signature's timestamp may be, or how far ahead",
        ),
        *((_rate(settings.LIMITS[name]), text) for name, text in LIMITS.items()),
        (
            str(settings.WAITING_READERS_PER_TOKEN),
            "Readers of one token that wait for events at the same time",
        ),
        (NO_LIMIT if streams is None else str(streams), "Streams of one token at the same time"),
    ]


def _rate(limit: str) -> str:
    """Returns ``120/minute`` as words."""
    if limit == OFF:
        return NO_LIMIT
    count, _, window = limit.partition("/")
    return f"{int(count):,} per {window}"


# --- Which clients get it as a page (contract, section 4) -----------------------------------------

PAGE, XHTML = "text/html", "application/xhtml+xml"


def prefers_page(accept: str) -> bool:
    """Says whether an ``Accept`` header prefers HTML to JSON and names XHTML too.

    Browsers name XHTML. Libraries that also put HTML first, such as Java's, do not: they get JSON.
    """
    weights = media_weights(accept)
    return weights.get(XHTML, 0.0) > 0 and weights.get(PAGE, 0.0) > json_weight(weights)

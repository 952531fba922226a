"""The JSON schemas of values and of types. Without Django, for the pure modules of ``signals.law``.

A JSON object is described by a ``TypedDict``. A member's annotation says what the member holds, a
text in it is its description: ``expiresAt: Annotated[DateTime | None, "When it ends."]``.
"""

import inspect
import json
from collections.abc import Callable, Iterable
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

JsonObject = dict[str, Any]
Refer = Callable[[type], JsonObject]  # returns a reference to the schema of a ``TypedDict``


class JsonSchema(JsonObject):
    """A JSON schema, or a part of one. What stands in an annotation must have a hash."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(json.dumps(self, sort_keys=True))


class Example(NamedTuple):
    """An example of a value, in an annotation."""

    value: object


STRING = JsonSchema(type="string")
BOOLEAN = JsonSchema(type="boolean")
COUNT = JsonSchema(type="integer", minimum=0)

EXAMPLE_USER_ID = "usr_7Jq2nT0vYc5RkXw9LbZsA1"

DateTime = Annotated[
    str,
    JsonSchema(format="date-time", pattern=r"\.[0-9]{3}Z$"),
    Example("2026-11-20T09:30:00.000Z"),
]
Position = Annotated[int, JsonSchema(format="int64", minimum=1), Example(8)]
Count = Annotated[int, COUNT, Example(12)]

_PLAIN: dict[object, JsonSchema] = {
    str: STRING,
    bool: BOOLEAN,
    int: JsonSchema(type="integer"),
    dict: JsonSchema(type="object"),
}


_PLAIN_EXAMPLES: dict[object, object] = {str: "…", bool: True, int: 1, dict: {}}


def pattern(regex: str, **options: object) -> JsonSchema:
    """The schema of a string that matches this pattern completely."""
    return JsonSchema(type="string", pattern=f"^{regex}$", **options)


def one_of(choices: Iterable[str]) -> JsonSchema:
    """The schema of a string that is one of these."""
    return JsonSchema(type="string", enum=[str(choice) for choice in choices])


def object_schema(described: type, refer: Refer) -> JsonObject:
    """The schema of a ``TypedDict``."""
    members = get_type_hints(described, include_extras=True)
    required: frozenset[str] = vars(described)["__required_keys__"]
    return {
        "type": "object",
        "properties": {name: schema_of(member, refer) for name, member in members.items()},
        "required": [name for name in members if name in required],
        "description": inspect.getdoc(described),
    }


def schema_of(described: object, refer: Refer) -> JsonObject:
    """The schema of the type of a value."""
    origin, args = get_origin(described), get_args(described)
    if origin is Annotated:
        return _with_notes(schema_of(args[0], refer), args[1:])
    if origin is NotRequired:
        return schema_of(args[0], refer)
    if origin in (Union, UnionType):
        schemas = [schema_of(each, refer) for each in args if each is not NoneType]
        schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        return nullable(schema) if NoneType in args else schema
    if origin is Literal:
        return {"const": args[0]} if len(args) == 1 else one_of(args)
    if origin is list:
        return {"type": "array", "items": schema_of(args[0], refer)}
    if isinstance(described, type) and is_typeddict(described):
        return refer(described)
    return dict(_PLAIN[origin or described])


def nullable(schema: JsonObject) -> JsonObject:
    """The same schema, which also allows null."""
    if "anyOf" in schema:
        return {"anyOf": [*schema["anyOf"], {"type": "null"}]}
    # A null among the values of an enum is more than some generators of clients understand.
    if schema.keys() & {"$ref", "enum", "const"}:
        return {"oneOf": [schema, {"type": "null"}]}
    return {**schema, "type": [schema["type"], "null"]} if "type" in schema else schema


def _with_notes(schema: JsonObject, notes: Iterable[Any]) -> JsonObject:
    """Adds descriptions and parts of a schema. A reference stands alone in its object."""
    schema = {"allOf": [schema]} if "$ref" in schema else schema
    for note in notes:
        if not isinstance(note, Example):
            schema = {**schema, **({"description": note} if isinstance(note, str) else note)}
    return schema


def example_of(described: object) -> Any:
    """A value of the type, made of the examples in its annotations.

    What may be absent is left out. What may be null is, unless it has an example or is an object.
    """
    origin, args = get_origin(described), get_args(described)
    if origin is Annotated:
        given = [note.value for note in args[1:] if isinstance(note, Example)]
        choices = [
            note["enum"] for note in args[1:] if isinstance(note, JsonSchema) and "enum" in note
        ]
        return given[-1] if given else choices[0][0] if choices else example_of(args[0])
    if origin in (Union, UnionType):
        return example_of(args[0]) if is_typeddict(args[0]) else None
    if origin is list:
        return [example_of(args[0])]
    if isinstance(described, type) and is_typeddict(described):
        members = get_type_hints(described, include_extras=True)
        required = vars(described)["__required_keys__"]
        return {name: example_of(member) for name, member in members.items() if name in required}
    return args[0] if origin is Literal else _PLAIN_EXAMPLES[origin or described]

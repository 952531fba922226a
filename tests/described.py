"""Compares responses with the OpenAPI document.

The comparison is stricter than the document: a member that the schema does not name is an error, so
that no response has undocumented members.
"""

import copy
from datetime import datetime
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker

from config.openapi.generator import document
from tests.client import Response

MEDIA_TYPES = {True: "application/json", False: "application/problem+json"}
# These schemas are combined by allOf; the combined schema is closed instead.
PARTS = ("Problem", "SpentNonce")

formats = FormatChecker()


@formats.checks("date-time", raises=ValueError)
def is_moment(value: object) -> bool:
    return not isinstance(value, str) or datetime.fromisoformat(value).tzinfo is not None


def operations() -> dict[str, dict[str, Any]]:
    """The operations by ``operationId``, each with its ``method`` and ``path``."""
    return {
        operation["operationId"]: {**operation, "method": method.upper(), "path": path}
        for path, of_path in document()["paths"].items()
        for method, operation in of_path.items()
    }


def examples(operation: dict[str, Any]) -> dict[str, Any]:
    """The request examples of an operation, by name."""
    if "requestBody" not in operation:
        return {}
    named = operation["requestBody"]["content"]["application/json"]["examples"]
    return {name: example["value"] for name, example in named.items()}


def faults(operation_id: str, response: Response) -> list[str]:
    """The differences between a response and the document: status, media type, headers, schema."""
    operation = operations()[operation_id]
    described = resolved(operation["responses"].get(str(response.status_code)))
    if described is None:
        return [f"{response.status_code} is not described"]
    missing = [
        name
        for name, header in described["headers"].items()
        if resolved(header).get("required") and name not in response.headers
    ]
    media_type = MEDIA_TYPES[response.status_code < 300]
    if response.headers["Content-Type"] != media_type:
        return [*missing, f"it is {response.headers['Content-Type']}"]
    schema = described["content"][media_type]["schema"]
    return [*missing, *shape_faults(schema, response.json())]


def shape_faults(schema: dict[str, Any], value: Any) -> list[str]:
    """The differences between a value and a schema, including members that it does not name."""
    whole = {
        **schema,
        **({"unevaluatedProperties": False} if "allOf" in schema else {}),
        "components": {"schemas": _closed(document()["components"]["schemas"])},
    }
    validator = Draft202012Validator(whole, format_checker=formats)
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]


def resolved(described: dict[str, Any] | None) -> Any:
    """The target of a ``$ref``, or the object itself."""
    while described is not None and "$ref" in described:
        *_, group, name = described["$ref"].split("/")
        described = document()["components"][group][name]
    return described


def _closed(schemas: dict[str, Any]) -> dict[str, Any]:
    closed = copy.deepcopy(schemas)
    for name, schema in closed.items():
        if name not in PARTS:
            _close(schema)
    return closed


def _close(schema: Any) -> None:
    if isinstance(schema, dict):
        if schema.get("type") == "object" and "properties" in schema:
            schema.setdefault("additionalProperties", False)
        for inner in schema.values():
            _close(inner)
    elif isinstance(schema, list):
        for inner in schema:
            _close(inner)

"""What the OpenAPI document of this code says, and what differs from it."""

import functools
from typing import Any

from config.openapi.generator import document
from tests.client import Response
from tests.conformance.document import Document


@functools.cache
def described() -> Document:
    return Document(document())


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
    return described().answer_faults(
        operation, response.status_code, response.headers, response.content
    )


def shape_faults(schema: dict[str, Any], value: Any) -> list[str]:
    """The differences between a value and a schema, including members that it does not name."""
    return described().shape_faults(schema, value)


def resolved(of_document: dict[str, Any] | None) -> Any:
    """The target of a ``$ref``, or the object itself."""
    return described().resolved(of_document)

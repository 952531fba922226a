"""Compares what the service answers and sends with its OpenAPI document.

The comparison is stricter than the document: a member that the schema does not name is an error, so
that nothing has undocumented members.
"""

import copy
import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

import httpx2
from jsonschema import Draft202012Validator, FormatChecker

JSON, PROBLEM = "application/json", "application/problem+json"
# These schemas are combined by allOf; the combined schema is closed instead.
PARTS = ("Problem", "SpentNonce")

formats = FormatChecker()


@formats.checks("date-time", raises=ValueError)
def is_moment(value: object) -> bool:
    return not isinstance(value, str) or datetime.fromisoformat(value).tzinfo is not None


class Document:
    """An OpenAPI document, and what differs from it."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content
        self._closed: dict[str, Any] = copy.deepcopy(content["components"]["schemas"])
        for name, schema in self._closed.items():
            if name not in PARTS:
                _close(schema)
        self._paths = [
            (re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), methods)
            for path, methods in content["paths"].items()
        ]

    def operation(self, method: str, path: str) -> dict[str, Any] | None:
        """The operation that a request is for, if the document has one."""
        for form, methods in self._paths:
            if form.fullmatch(path):
                found: dict[str, Any] | None = methods.get(method.lower())
                return found
        return None

    def answer_faults(
        self, operation: dict[str, Any], status: int, headers: Mapping[str, str], body: bytes
    ) -> list[str]:
        """The differences of an answer: status, media type, headers, schema."""
        described = self.resolved(operation["responses"].get(str(status)))
        if described is None:
            return [f"{status} is not described"]
        missing = [
            name
            for name, header in described.get("headers", {}).items()
            if self.resolved(header).get("required") and name not in headers
        ]
        if not body:
            return missing
        media_type = headers["Content-Type"].partition(";")[0]
        if media_type not in described.get("content", {}):
            return [*missing, f"{status} is {media_type}"]
        if media_type not in (JSON, PROBLEM):
            return missing
        schema = described["content"][media_type]["schema"]
        return [*missing, *self.shape_faults(schema, json.loads(body))]

    def message_faults(self, headers: Mapping[str, str], body: bytes) -> list[str]:
        """The differences of a webhook's message: headers and body."""
        message, webhooks = json.loads(body), self.content["webhooks"]
        described = webhooks.get(message["type"], webhooks["event"])["post"]
        wrong = [
            each["name"]
            for each in described["parameters"]
            if not re.search(each["schema"]["pattern"], headers.get(each["name"], ""))
        ]
        schema = described["requestBody"]["content"][JSON]["schema"]
        return [*wrong, *self.shape_faults(schema, message)]

    def frame_faults(self, frame: Mapping[str, Any]) -> list[str]:
        """The differences of a frame of a stream, with the JSON in its ``data``."""
        items = self.content["components"]["schemas"]["Stream"]["contentSchema"]["items"]
        faults = self.shape_faults(items, frame)
        if "data" in frame:
            name = "EndFrame" if frame.get("event") == "end" else "EventFrame"
            data = self.content["components"]["schemas"][name]["properties"]["data"]
            faults += self.shape_faults(data["contentSchema"], json.loads(frame["data"]))
        return faults

    def shape_faults(self, schema: dict[str, Any], value: Any) -> list[str]:
        """The differences between a value and a schema, and members that it does not name."""
        whole = {
            **schema,
            **({"unevaluatedProperties": False} if "allOf" in schema else {}),
            "components": {"schemas": self._closed},
        }
        validator = Draft202012Validator(whole, format_checker=formats)
        return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]

    def resolved(self, described: dict[str, Any] | None) -> Any:
        """The target of a ``$ref``, or the object itself."""
        while described is not None and "$ref" in described:
            *_, group, name = described["$ref"].split("/")
            described = self.content["components"][group][name]
        return described


class Comparison:
    """Compares every answer of a client and every frame with the document.

    ``faults`` are what differs. An event that was in an answer before is not compared again: the
    whole log is read many times.
    """

    def __init__(self, load: Callable[[], dict[str, Any]]) -> None:
        self._load = load
        self._seen: set[str] = set()
        self.answers = self.frames = 0  # how many were compared
        self.faults: list[str] = []

    @cached_property
    def document(self) -> Document:
        return Document(self._load())

    def on_response(self, answer: httpx2.Response) -> None:
        request = answer.request
        operation = self.document.operation(request.method, request.url.path)
        if operation is None:
            return
        self.answers += 1
        name = f"{operation['operationId']} {answer.status_code}"
        body = answer.read()
        if answer.headers.get("Content-Type") == JSON:
            body = json.dumps(self._unseen(name, answer.json())).encode()
        found = self.document.answer_faults(operation, answer.status_code, answer.headers, body)
        self.faults += [f"{name}: {fault}" for fault in found]

    def on_frame(self, frame: Mapping[str, str]) -> None:
        self.frames += 1
        read = {**frame, **({"retry": int(frame["retry"])} if "retry" in frame else {})}
        self.faults += [f"a frame: {fault}" for fault in self.document.frame_faults(read)]

    def _unseen(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(body.get("events"), list):
            return body
        keyed = {f"{name} {json.dumps(event)}": event for event in body["events"]}
        unseen = {key: event for key, event in keyed.items() if key not in self._seen}
        self._seen |= unseen.keys()
        return {**body, "events": list(unseen.values())}


def _close(schema: Any) -> None:
    if isinstance(schema, dict):
        if schema.get("type") == "object" and "properties" in schema:
            schema.setdefault("additionalProperties", False)
        for inner in schema.values():
            _close(inner)
    elif isinstance(schema, list):
        for inner in schema:
            _close(inner)

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
STREAM = "text/event-stream"
# These schemas are combined by allOf; the combined schema is closed instead.
PARTS = ("Problem", "SpentNonce")
PROBLEM_SCHEMA = {"allOf": [{"$ref": "#/components/schemas/Problem"}]}
# The answers to a method that a path of the document does not have.
OTHER_METHOD = {
    "operationId": "another method",
    "responses": {
        "400": {"content": {PROBLEM: {"schema": PROBLEM_SCHEMA}, "text/plain": {}}},
        "405": {"$ref": "#/components/responses/method_not_allowed"},
    },
}

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
        """The operation that a request is for, if the path is of the document."""
        name = "get" if method == "HEAD" else method.lower()
        for form, methods in self._paths:
            if form.fullmatch(path):
                found: dict[str, Any] = methods.get(name, OTHER_METHOD)
                return found
        return None

    def answer_faults(
        self, operation: dict[str, Any], status: int, headers: Mapping[str, str], body: bytes
    ) -> list[str]:
        """The differences of an answer: status, headers, media type, schema."""
        described = self.resolved(operation["responses"].get(str(status)))
        if described is None:
            return [f"{status} is not described"]
        found: list[str] = []
        for name, reference in described.get("headers", {}).items():
            header = self.resolved(reference)
            if header.get("required") or name in headers:
                found += self.header_faults(name, header["schema"], headers)
        content = described.get("content", {})
        media_type = headers.get("Content-Type", "").partition(";")[0]
        if content and media_type not in content:
            return [*found, f"{status} is {media_type or 'of no media type'}"]
        if not content and body:
            return [*found, f"{status} has a body"]
        if not body or media_type not in (JSON, PROBLEM):
            return found
        return [*found, *self.shape_faults(content[media_type]["schema"], json.loads(body))]

    def header_faults(
        self, name: str, schema: dict[str, Any], headers: Mapping[str, str]
    ) -> list[str]:
        """The differences of a header that must be there."""
        if name not in headers:
            return [f"{name} is missing"]
        value = headers[name]
        is_number = schema.get("type") == "integer" and value.isdecimal()
        faults = self.shape_faults(schema, int(value) if is_number else value)
        return [f"{name} {fault}" for fault in faults]

    def message_faults(self, headers: Mapping[str, str], body: bytes) -> list[str]:
        """The differences of a webhook's message: headers and body."""
        message, webhooks = json.loads(body), self.content["webhooks"]
        described = webhooks.get(str(message["type"]), webhooks["event"])["post"]
        wrong: list[str] = []
        for each in described["parameters"]:
            wrong += self.header_faults(each["name"], each["schema"], headers)
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
    """Compares every answer of a client, frame and message of a webhook with the document.

    ``faults`` are what differs. An event that was in an answer before is not compared again: the
    whole log is read many times.
    """

    def __init__(self, load: Callable[[], dict[str, Any]]) -> None:
        self._load = load
        self._seen: set[str] = set()
        self.answers = self.frames = self.messages = 0  # how many were compared
        self.faults: list[str] = []

    @cached_property
    def document(self) -> Document:
        return Document(self._load())

    def on_response(self, answer: httpx2.Response) -> None:
        """Takes an answer. Of a stream it does not read the body."""
        request, media_type = answer.request, answer.headers.get("Content-Type")
        operation = self.document.operation(request.method, request.url.path)
        if request.method == "OPTIONS" or (operation is None and media_type != PROBLEM):
            return
        self.answers += 1
        body = b"" if media_type == STREAM else answer.read()
        if operation is None:
            found = self.document.shape_faults(PROBLEM_SCHEMA, json.loads(body)) if body else []
            self.faults += [f"{request.url.path}: {fault}" for fault in found]
            return
        name = f"{operation['operationId']} {answer.status_code}"
        if media_type == JSON and body:
            body = json.dumps(self._unseen(name, answer.json())).encode()
        found = self.document.answer_faults(operation, answer.status_code, answer.headers, body)
        self.faults += [f"{name}: {fault}" for fault in found]

    def on_message(self, headers: Mapping[str, str], body: bytes) -> None:
        self.messages += 1
        found = self.document.message_faults(headers, body)
        self.faults += [f"a message: {fault}" for fault in found]

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

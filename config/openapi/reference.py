"""The OpenAPI document as a page of plain HTML (GET /api/docs): every operation, every object."""

import functools
import json
import re
import shlex
from collections.abc import Iterable, Iterator

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from config.openapi.generator import document
from config.problems import MEDIA_TYPE
from events.http.refusals import Refused
from events.http.schemas import JSON
from events.http.web_pages import page
from events.json_schema import JsonObject
from signals.contract.page import TOKEN, Row

# Who may call, by the schemes that a caller presents together.
CALLERS = {
    ("bearer",): "a token",
    ("session",): "a session",
    ("session", "csrf"): "a session, with X-CSRFToken",
    ("signature", "timestamp"): "a signature",
}
YOUR_URL = "your URL"  # where messages of webhooks go


@page("GET")
def docs(request: HttpRequest) -> HttpResponse:
    """GET /api/docs: the page. Public."""
    return render(request, "reference/page.html", {"reference": reference()})


@functools.cache
def reference() -> str:
    """Returns the HTML of the page's content. Each process renders it once."""
    found = document()
    messages = [(YOUR_URL, methods) for methods in found["webhooks"].values()]
    operations = [
        (operation["tags"][0], _operation(method, path, operation))
        for path, methods in [*found["paths"].items(), *messages]
        for method, operation in methods.items()
    ]
    context = {
        "info": found["info"],
        "description": [_prose(each) for each in found["info"]["description"].split("\n\n")],
        "base": settings.BASE_URL,
        "token": TOKEN,
        "groups": [
            {
                "name": tag["name"],
                "description": _prose(tag["description"]),
                "operations": [each for name, each in operations if name == tag["name"]],
            }
            for tag in found["tags"]
        ],
        "everywhere": [
            refusal
            for refusal in Refused.registry()
            if refusal.code in found["components"]["responses"]
        ],
        "schemes": [
            Row(name, "", _prose(scheme["description"]))
            for name, scheme in found["components"]["securitySchemes"].items()
        ],
        "objects": [
            {
                "name": name,
                "description": _prose(schema.get("description", "")),
                "values": "" if "properties" in schema else _values(schema),
                "members": list(_members(schema)),
            }
            for name, schema in sorted(found["components"]["schemas"].items())
        ],
    }
    html = render_to_string("reference/content.html", context)
    # A sixth is indentation. No line of code begins with <.
    return re.sub(r"\n\s+(?=<)", "\n", html)


def _operation(method: str, path: str, operation: JsonObject) -> dict[str, object]:
    """Returns what the page shows of an operation, or of a message that the service sends."""
    body = operation.get("requestBody", {}).get("content", {}).get(JSON, {})
    responses = operation["responses"]
    first = next(iter(responses.values()))
    return {
        "id": operation["operationId"],
        "method": method.upper(),
        "path": path,
        "summary": operation["summary"],
        "description": _prose(operation.get("description", "")),
        "callers": _callers(path, operation),
        "parameters": [_parameter(each) for each in operation.get("parameters", [])],
        "body": _values(body.get("schema", {})),
        "answers": [
            _answer(status, response)
            for status, response in responses.items()
            if "$ref" not in response  # every operation has these
        ],
        "request": _request(method, path, operation, body),
        "example": _json(first.get("content", {}).get(JSON, {})),
    }


def _callers(path: str, operation: JsonObject) -> str:
    """Returns who may call, as a sentence."""
    if path == YOUR_URL:
        return "Signed by the service."
    callers = [
        " with ".join(
            [CALLERS[tuple(presented)], *(scope for each in presented.values() for scope in each)]
        )
        for presented in operation.get("security", [])
    ]
    return f"Needs {' or '.join(callers)}." if callers else "Needs no credential."


def _parameter(parameter: JsonObject) -> Row:
    return Row(
        parameter["name"],
        format_html("{} ({})", _values(parameter["schema"]), parameter["in"]),
        _prose(parameter.get("description", "")),
        parameter.get("required", False),
    )


def _answer(status: str, response: JsonObject) -> dict[str, object]:
    """Returns what the page shows of an answer: what it is, or the codes of its refusals."""
    content = response.get("content", {})
    problem = content.get(MEDIA_TYPE, {}).get("schema", {})
    return {
        "status": status,
        "description": _prose(response["description"]),
        "values": format_html_join(
            " or ", "{} ({})", ((_values(each["schema"]), name) for name, each in content.items())
        ),
        "codes": problem.get("properties", {}).get("code", {}).get("enum", []),
    }


def _request(method: str, path: str, operation: JsonObject, body: JsonObject) -> str:
    """Returns a command that sends the request; of a message, its body."""
    if path == YOUR_URL:
        return _json(body)
    schemes = operation.get("security", [{}])[0]
    query = "&".join(
        f"{each['name']}=…"
        for each in operation.get("parameters", [])
        if each["in"] == "query" and each.get("required")
    )
    url = f"{settings.BASE_URL}{path}{'?' if query else ''}{query}"
    lines = [f"curl {'' if method == 'get' else f'-X {method.upper()} '}'{url}'"]
    if "bearer" in schemes:
        lines.append(f'-H "Authorization: Bearer {TOKEN}"')
    if "session" in schemes:
        cookies = f"{settings.SESSION_COOKIE_NAME}=$SESSION; {settings.CSRF_COOKIE_NAME}=$CSRF"
        lines += [f'-b "{cookies}"', '-H "X-CSRFToken: $CSRF"']
    if body:
        lines += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(_json(body))}"]
    return " \\\n  ".join(lines)


def _json(content: JsonObject) -> str:
    """The first example of a media type, as JSON."""
    example = next(iter(content.get("examples", {}).values()), None)
    return json.dumps(example["value"], indent=2, ensure_ascii=False) if example else ""


# --- Schemas in words ----------------------------------------------------------------------------

BOUNDS = {
    "format": "{}",
    "pattern": "{}",
    "maxLength": "at most {} characters",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "over {}",
    "exclusiveMaximum": "below {}",
    "minItems": "at least {}",
    "maxItems": "at most {}",
    "default": "{} by default",
}


def _members(schema: JsonObject) -> Iterator[Row]:
    required = schema.get("required", [])
    for name, member in schema.get("properties", {}).items():
        text = _prose(member.get("description", ""))
        yield Row(name, _values(member), text, name in required)


def _values(schema: JsonObject) -> SafeString:
    """Returns the values of a JSON schema in words, with links to the objects."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return format_html('<a href="#{}">{}</a>', name, name)
    for word in ("oneOf", "anyOf", "allOf"):
        if word in schema and "properties" not in schema:
            return _either([_values(each) for each in schema[word]])
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        texts = [each if isinstance(each, str) else json.dumps(each) for each in values]
        one_of = "one of " if len(texts) > 1 else ""
        return format_html("{}<code>{}</code>", one_of, ", ".join(texts))
    types = schema.get("type", [])
    words = [
        format_html("list of {}", _values(schema["items"])) if name == "array" else name
        for name in ([types] if isinstance(types, str) else types)
    ]
    bounds = [
        text.format(schema[name])
        for name, text in BOUNDS.items()
        if name in schema and not (name == "pattern" and "format" in schema)
    ]
    return format_html_join(", ", "{}", ((each,) for each in [_either(words), *bounds] if each))


def _either(words: Iterable[str]) -> SafeString:
    return format_html_join(" or ", "{}", ((word,) for word in words))


def _prose(text: str) -> SafeString:
    """Returns a description as HTML: what stands between backticks is code."""
    escaped = escape(text.replace("**", ""))
    return mark_safe(re.sub("``?(.+?)``?", r"<code>\1</code>", escaped))  # noqa: S308  # nosec - escaped

"""The headers of responses in the OpenAPI document."""

from typing import Any

from events.json_schema import COUNT, STRING

Document = dict[str, Any]

REQUEST_ID = "5f0c4a7be2d14e0b9d7a3c1f88e6b2a0"

HEADERS: Document = {
    "X-Request-Id": {
        "description": "The caller's, if it is 1 to 64 of A-Za-z0-9_- and holds no credential, "
        "else a new one.",
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
        "required": True,
    },
    "NoStore": {"schema": {"const": "no-store"}, "required": True},
    "NoCache": {"schema": {"const": "public, no-cache"}, "required": True},
    "ETag": {
        "description": "For If-None-Match. Weak: the same whether compressed or not.",
        "schema": STRING,
        "required": True,
    },
    "WWW-Authenticate": {"schema": {"const": "Bearer"}, "required": True},
    "Allow": {"description": "The methods of this path.", "schema": STRING, "required": True},
    "Retry-After": {"description": "Seconds.", "schema": COUNT, "required": True},
    "RateLimit-Policy": {
        "description": "The limit with the least left: so many in so many seconds.",
        "schema": {"type": "string", "pattern": '^"[a-z_]+";q=[0-9]+;w=[0-9]+$'},
    },
    "RateLimit": {
        "description": "What is left of it, and the seconds until there is more.",
        "schema": {"type": "string", "pattern": '^"[a-z_]+";r=[0-9]+;t=[0-9]+$'},
    },
}
ALWAYS = {"X-Request-Id": "X-Request-Id", "Cache-Control": "NoStore"}
COUNTED = {**ALWAYS, "RateLimit-Policy": "RateLimit-Policy", "RateLimit": "RateLimit"}
PUBLIC = {**ALWAYS, "Cache-Control": "NoCache", "ETag": "ETag"}
OF_STATUS = {
    401: {"WWW-Authenticate": "WWW-Authenticate"},
    405: {"Allow": "Allow"},
    429: {"Retry-After": "Retry-After"},
    503: {"Retry-After": "Retry-After"},
}

"""Every route of the URL configuration, and a path that it matches."""

import re
from collections.abc import Iterator
from typing import Any

from django.urls import URLPattern, get_resolver


def routes() -> list[str]:
    """Every route as the URL configuration writes it, without duplicates."""
    return [*dict.fromkeys(_walk(get_resolver().url_patterns, ""))]


# A sample value for each route parameter.
SAMPLES = {
    "<userId:": "usr_" + "0" * 22,
    "<signalId:": "sig_" + "0" * 22,
    "<subscriptionId:": "sub_" + "0" * 22,
    "<str:": "x",
    "<int:": "1",
    "<path:": "1",
    "(?P<app_label>": "tokens",
    "(?P<url>": "no/such/page",
    "(?P<key>": "x",
    "(?P<uidb36>": "1",
}
_OPEN_PART = re.compile(r"(<\w+:|\(\?P<\w+>)(?:\w+>|[^()]*\))")


def address(route: str) -> str:
    """A path that the route matches. The object that it names may not exist."""
    path = _OPEN_PART.sub(lambda part: SAMPLES[part.group(1)], route)
    return "/" + re.sub(r"[\^$]", "", path)


def _walk(patterns: list[Any], before: str) -> Iterator[str]:
    for pattern in patterns:
        route = before + str(pattern.pattern)
        if isinstance(pattern, URLPattern):
            yield route
        else:
            yield from _walk(pattern.url_patterns, route)

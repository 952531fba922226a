"""Every route of the URL map."""

from collections.abc import Iterator
from typing import Any

from django.urls import URLPattern, get_resolver


def routes() -> list[str]:
    """Every route, as the URL map writes it."""
    return [*_walk(get_resolver().url_patterns, "")]


def _walk(patterns: list[Any], before: str) -> Iterator[str]:
    for pattern in patterns:
        here = before + str(pattern.pattern)
        if isinstance(pattern, URLPattern):
            yield here
        else:
            yield from _walk(pattern.url_patterns, here)

"""What the templates of the control area's lists need."""

from collections.abc import Iterable, Iterator
from typing import Any

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import capfirst

register = template.Library()


@register.filter
def labelled(cells: Iterable[SafeString], headers: list[dict[str, Any]]) -> Iterator[SafeString]:
    """Adds to each cell of a row its column's name, which a narrow screen shows before it."""
    for cell, header in zip(cells, headers, strict=True):
        label = escape(capfirst(str(header["text"])))
        tag = cell[:3]  # <th or <td
        yield mark_safe(f'{tag} data-label="{label}"{cell[3:]}')  # noqa: S308 - both are escaped  # nosec

"""What the templates of the control area's lists need."""

from collections.abc import Iterable, Iterator
from typing import Any

from django import template
from django.contrib import admin
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import capfirst

register = template.Library()


@register.filter
def labelled(cells: Iterable[SafeString], headers: list[dict[str, Any]]) -> Iterator[SafeString]:
    """Adds to each cell of a row its column's name, which a narrow screen shows before it.

    A narrow screen leaves out the cells without a value.
    """
    for cell, header in zip(cells, headers, strict=True):
        label = escape(capfirst(str(header["text"])))
        tag = cell[:3]  # <th or <td
        empty = " data-empty" if cell.endswith(f">{admin.site.empty_value_display}</td>") else ""
        yield mark_safe(f'{tag} data-label="{label}"{empty}{cell[3:]}')  # noqa: S308 - both are escaped  # nosec

"""Links between pages of the control area, and sections of the pages of rows.

An app cannot name the lists of an app above it. That app registers its lists and sections here.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

from django.contrib.admin.utils import quote
from django.db.models import Model
from django.urls import reverse
from django.utils.safestring import SafeString


class PageLink(NamedTuple):
    """A link to a page that does one thing."""

    label: str
    url: str


class Section(NamedTuple):
    """A part of the page of a row, below its fields. ``content`` is safe HTML."""

    heading: str
    content: SafeString


_sections: defaultdict[type[Model], dict[str, Callable[[Any], SafeString]]] = defaultdict(dict)
_related: defaultdict[type[Model], dict[str, type[Model]]] = defaultdict(dict)


def add_related(model: type[Model], label: str, listed: type[Model]) -> None:
    """Links the page of each row of ``model`` to the rows of ``listed`` that belong to it.

    The link searches the list for the row's public id.
    """
    _related[model][label] = listed


def add_section(model: type[Model], heading: str, render: Callable[[Any], SafeString]) -> None:
    """Adds a section to the page of each row of ``model``."""
    _sections[model][heading] = render


def sections_of(row: Model) -> list[Section]:
    """The sections of this row's page that have content, in the order in which they were added."""
    rendered = ((heading, render(row)) for heading, render in _sections[type(row)].items())
    return [Section(heading, content) for heading, content in rendered if content]


def related_links(row: Model) -> list[PageLink]:
    """The links from the page of this row to related lists, in the order of their labels."""
    public_id = getattr(row, "public_id", row.pk)
    return [
        PageLink(f"Its {label}", f"{_list_url(listed)}?q={public_id}")
        for label, listed in sorted(_related[type(row)].items())
    ]


def row_url(row: Model) -> str:
    """The URL of the page of this row."""
    name = f"admin:{row._meta.app_label}_{row._meta.model_name}_change"
    return reverse(name, args=[quote(row.pk)])


def _list_url(model: type[Model]) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")

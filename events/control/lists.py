"""Lists that open as fast with a million rows as with ten, and links between pages.

Lists are ordered by an index, filter on indexed columns only, and count at most ``MAX_LISTED``
rows. An app cannot name the lists of an app above it: that app registers its lists here.
"""

import functools
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, ClassVar, NamedTuple

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import Field, Model, QuerySet
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

MAX_LISTED = 10_000
EMPTY_VALUE = "-"  # the same as Django's
Rows = QuerySet[Any]


class LimitedPaginator(Paginator):  # type: ignore[type-arg]
    """A paginator that counts at most ``MAX_LISTED`` rows."""

    @functools.cached_property
    def count(self) -> int:
        rows: Rows = self.object_list  # type: ignore[assignment]
        return rows[:MAX_LISTED].count()

    @property
    def is_truncated(self) -> bool:
        """Whether there may be more rows than are listed."""
        return self.count == MAX_LISTED


class IndexedChangeList(ChangeList):
    """A list in the order of an index. The query string cannot change the order."""

    def get_ordering_field(self, field_name: object) -> None:
        return None


class ChoiceFilter(admin.SimpleListFilter):
    """A filter with a few named choices. ``filters`` maps each name to a function on querysets.

    The class's ``name`` is its title and its query parameter. ``labels`` are what pages call the
    choices whose names say too little, and ``label_of_all`` the absence of a choice, if there is.
    """

    filters: ClassVar[Mapping[str, Callable[[Any], Rows]]]
    labels: ClassVar[Mapping[str, str]] = {}
    label_of_all: ClassVar[str] = "all"

    def __init_subclass__(cls, name: str = "", **options: object) -> None:
        super().__init_subclass__(**options)
        if name:
            cls.title = cls.parameter_name = name

    def lookups(self, request: HttpRequest, model_admin: object) -> list[tuple[str, str]]:
        return [(name, self.labels.get(name, name)) for name in self.filters]

    @property
    def is_hidden(self) -> bool:
        """Whether the list offers no other choice than the present one."""
        return False

    @property
    def options(self) -> list[tuple[str, str, bool]]:
        """Its choices for a template: each name and label, and whether it is chosen."""
        chosen = super().value() or ""
        every = [("", self.label_of_all)] if self.label_of_all else []
        return [
            (name, str(label), name == chosen) for name, label in [*every, *self.lookup_choices]
        ]

    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        apply_filter = self.filters.get(self.value() or "")
        return apply_filter(queryset) if apply_filter else queryset


def pill(words: str, look: str = "") -> SafeString:
    """The state of a row: "on", "pill-warning" or "pill-failing"; no look if it is none of them."""
    return format_html('<span class="{}">{}</span>', f"state {look}".strip(), words)


@functools.cache
def api_formatted(field: "Field[Any, Any]") -> Callable[[Model], Any]:
    """A column that shows a choice as the API does, a time as every page does, and yes or no.

    It is made once: Django looks for a page's columns among those that are read-only.
    """

    @admin.display(description=field.verbose_name)
    def format_value(row: Model) -> Any:
        value = getattr(row, field.name)
        if isinstance(value, datetime):
            return render_to_string("time.html", {"at": value})
        if isinstance(value, bool):
            return "yes" if value else "no"
        return value or EMPTY_VALUE

    return format_value


class PageLink(NamedTuple):
    """A link to a page that does one thing."""

    label: str
    url: str


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


def sections_of(row: Model) -> list[tuple[str, SafeString]]:
    """The heading and content of this row's sections, in the order in which they were added."""
    rendered = ((heading, render(row)) for heading, render in _sections[type(row)].items())
    return [(heading, content) for heading, content in rendered if content]


def related_links(row: Model) -> list[PageLink]:
    """The links from the page of this row to related lists, in the order of their labels."""
    public_id = getattr(row, "public_id", row.pk)
    return [
        PageLink(f"Its {label}", f"{_url(listed, 'changelist')}?q={public_id}")
        for label, listed in sorted(_related[type(row)].items())
    ]


def row_url(row: Model) -> str:
    """The URL of the page of this row."""
    return _url(type(row), "change", quote(row.pk))


def _url(model: type[Model], page: str, *key: str) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=key)

"""Lists that open as fast with a million rows as with ten.

They are ordered by an index, filter on indexed columns only, and count at most ``MAX_LISTED`` rows.
"""

import functools
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import Field, Model, QuerySet
from django.http import HttpRequest
from django.template.loader import render_to_string

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

    def get_ordering_field(self, field_name: Any) -> None:
        return None


class ChoiceFilter(admin.SimpleListFilter):
    """A filter with a few named choices. ``filters`` maps each name to a function on querysets.

    The class's ``name`` is its title and its query parameter.
    """

    filters: ClassVar[Mapping[str, Callable[[Any], Rows]]]

    def __init_subclass__(cls, name: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        if name:
            cls.title = cls.parameter_name = name

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in self.filters]

    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        apply_filter = self.filters.get(self.value() or "")
        return apply_filter(queryset) if apply_filter else queryset


@functools.cache
def api_formatted(field: "Field[Any, Any]") -> Callable[[Model], Any]:
    """A column that shows a choice as the API does, and a time as every page does."""

    @admin.display(description=field.verbose_name)
    def format_value(row: Model) -> Any:
        value = getattr(row, field.name)
        if isinstance(value, datetime):
            return render_to_string("time.html", {"at": value})
        return value or EMPTY_VALUE

    return format_value

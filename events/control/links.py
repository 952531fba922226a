"""Links between pages of the control area.

An app cannot name the lists of an app above it. That app registers its lists here instead.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

from django.db.models import Model
from django.urls import reverse


class PageLink(NamedTuple):
    """A link to a page that does one thing."""

    label: str
    url: str


class RelatedList(NamedTuple):
    """A list of ``listed``, searched for what ``search`` returns for a row."""

    listed: type[Model]
    search: Callable[[Any], str]


_related: defaultdict[type[Model], dict[str, RelatedList]] = defaultdict(dict)


def _primary_key(row: Model) -> str:
    return str(row.pk)


def add_related(
    model: type[Model],
    label: str,
    listed: type[Model],
    search: Callable[[Any], str] = _primary_key,
) -> None:
    """Links the page of each row of ``model`` to the rows of ``listed`` that belong to it."""
    _related[model][label] = RelatedList(listed, search)


def related_links(row: Model) -> list[PageLink]:
    """The links from the page of this row to related lists, in the order of their labels."""
    return [
        PageLink(f"Its {label}", f"{_list_url(related.listed)}?q={related.search(row)}")
        for label, related in sorted(_related[type(row)].items())
    ]


def _list_url(model: type[Model]) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")

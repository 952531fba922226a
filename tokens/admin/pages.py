"""Base classes for the pages of credentials: showing a value once, and filtering by owner.

A value is shown only in the response to the POST that created it. It never appears in a URL, a
session, a message or a log.
"""

from typing import Any

from django.db.models import Model
from django.http import HttpRequest, HttpResponse

from events.control.lists import ChoiceFilter
from events.control.pages import ActionPage
from events.http import limits
from tokens import one_time_keys


class CreateCredentialPage(ActionPage):
    """A page that creates a credential and shows its value once, in the response."""

    is_per_row = False

    def create(self, form: Any) -> tuple[str, Model]:
        """Creates the credential and returns its value and its record."""
        raise NotImplementedError

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        one_time_keys.refuse_used(request)
        return super().post(request, *args, **kwargs)

    def perform(self, form: Any) -> HttpResponse:
        with one_time_keys.used_once(self.request):
            limits.consume("minting", str(self.request.user.pk))
            value, record = self.create(form)
        context = self.get_context_data(form=form, value=value, record=record)
        context["back"] = self._control.page_url("change", record)
        return self.response_class(self.request, ["control/shown_once.html"], context)


class OwnerFilter(ChoiceFilter, name="owner"):
    """Filters by owner. The default is the platform; a search covers both owners.

    ``column`` is a foreign key that only the rows of customers have.
    """

    def __init_subclass__(cls, column: str, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.filters = {
            "the platform": lambda rows: rows.filter(**{f"{column}__isnull": True}),
            "customers": lambda rows: rows.filter(**{f"{column}__isnull": False}),
        }

    def choices(self, changelist: Any) -> Any:
        return list(super().choices(changelist))[1:]  # without "All"

    def value(self) -> str | None:
        return super().value() or (None if self.request.GET.get("q") else "the platform")

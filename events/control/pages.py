"""The read-only pages of a model, and the pages that perform one action each."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import quote, unquote
from django.contrib.admin.views.main import ChangeList
from django.db.models import BooleanField, DateTimeField, Model, Q
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.views.generic import FormView

from events.actors import Actor
from events.control.lists import (
    ChoiceFilter,
    IndexedChangeList,
    LimitedPaginator,
    PageLink,
    Rows,
    api_formatted,
    related_links,
    sections_of,
)
from events.http.refusals import Invalid
from events.http.web_pages import refusal_beside


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """The list of a model's rows, and a page for each row. It cannot add, change or delete rows."""

    # The pages that perform an action, by the last part of their URL.
    pages: ClassVar[Mapping[str, type["ActionPage"]]] = {}
    # The condition of a search, by the prefix of its text. "" matches any other text.
    searches_by_prefix: ClassVar[Mapping[str, Callable[[str], Q]]] = {}

    fields: ClassVar[Sequence[str]] = ()  # type: ignore[assignment]
    list_display: Sequence[Any] = ()  # type: ignore[assignment]
    search_placeholder = "an id"  # the search_help_text says more
    list_filter: ClassVar[Sequence[type[ChoiceFilter]]] = ()  # type: ignore[assignment]

    actions = None
    change_list_template = "control/list.html"
    change_form_template = "control/row.html"
    list_per_page = 100
    paginator = LimitedPaginator
    show_facets = admin.ShowFacets.NEVER
    show_full_result_count = False
    sortable_by = ()
    view_on_site = False

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def get_urls(self) -> list[URLPattern]:
        """Django's list and row page, and our action pages. None of Django's forms."""
        stock_names = {self.url_name("changelist"), self.url_name("change")}
        return [
            *(self._page_url_pattern(name, page) for name, page in self.pages.items()),
            *(url for url in super().get_urls() if url.name in stock_names),
        ]

    def url_name(self, name: str) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_{name}"

    def page_url(self, name: str, row: Model | None = None) -> str:
        """The URL of one of the pages; with ``row``, of that row's page."""
        key = [quote(row.pk)] if row else []
        return reverse(f"admin:{self.url_name(name)}", args=key)

    def get_changelist(self, request: HttpRequest, **kwargs: object) -> type[ChangeList]:
        return IndexedChangeList

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Allows only the filters of the list. Other lookups would reveal hidden columns."""
        return lookup in {filter_class.parameter_name for filter_class in self.list_filter}

    def get_search_fields(self, request: HttpRequest) -> list[str]:
        return list(self.searches_by_prefix)

    def get_search_results(
        self, request: HttpRequest, queryset: Rows, search_term: str
    ) -> tuple[Rows, bool]:
        text = search_term.strip()
        if not text:
            return queryset, False
        for prefix, condition in self.searches_by_prefix.items():
            if text.startswith(prefix):
                return queryset.filter(condition(text)), False
        return queryset.none(), False

    def get_list_display(self, request: HttpRequest) -> Any:
        return [self._column(name) for name in self.list_display]

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return [self._column(name) for name in self.fields]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return self.get_fields(request, obj)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, object] | None = None
    ) -> HttpResponse:
        tools = [
            PageLink(page.label, self.page_url(name))
            for name, page in self.pages.items()
            if not page.is_per_row
        ]
        context = {"title": self.list_title(request), "tools": tools}
        return super().changelist_view(request, context)

    def list_title(self, request: HttpRequest) -> str:
        """The heading of the list."""
        return str(self.opts.verbose_name_plural).capitalize()

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **options: Any
    ) -> HttpResponse:
        row = context["original"]
        context |= {
            "title": str(self.opts.verbose_name).capitalize(),
            "tools": self.row_tools(row),
            **self.row_context(row),
        }
        return super().render_change_form(request, context, *args, **options)

    def row_context(self, row: Model) -> dict[str, object]:
        """What the template of the row's page shows beside the fields."""
        return {"sections": sections_of(row)}

    def row_tools(self, row: Model) -> list[PageLink]:
        """Links to the actions that are possible on this row, and to related lists."""
        pages = [
            PageLink(page.label, self.page_url(name, row))
            for name, page in self.pages.items()
            if page.is_per_row and page.applies_to(row)
        ]
        return [*pages, *related_links(row)]

    def _column(self, name: str) -> Any:
        """The column of this name. Choices, times and booleans are words."""
        fields = {field.name: field for field in self.opts.concrete_fields}
        field = fields.get(name)
        if field and (field.choices or isinstance(field, BooleanField | DateTimeField)):
            return api_formatted(field)
        return name

    def _page_url_pattern(self, name: str, page: type["ActionPage"]) -> URLPattern:
        route = f"<path:object_id>/{name}/" if page.is_per_row else f"{name}/"
        view = self.admin_site.admin_view(page.as_view(_control=self))
        return path(route, view, name=self.url_name(name))


class ActionPage(FormView):  # type: ignore[type-arg]
    """A page that performs one action. GET shows the consequences, POST performs it."""

    label: ClassVar[str]
    submit: ClassVar[str] = ""  # the text of the button, if it is not the label
    is_per_row: ClassVar[bool] = True
    is_destructive: ClassVar[bool] = False  # shown in red
    says: ClassVar[Sequence[str]] = ()  # the consequences; {row} is the row

    _control: ReadOnlyAdmin = None  # type: ignore[assignment]  # as_view() gets it
    form_class = forms.Form
    template_name = "control/form.html"

    @staticmethod
    def applies_to(row: Any) -> bool:
        """Whether the action is possible on this row."""
        return True

    def consequences(self) -> list[str]:
        """The consequences of the action, as sentences."""
        return [sentence.format(row=self.row) for sentence in self.says]

    def perform(self, form: Any) -> HttpResponse:
        """Performs the action. Raises ``Invalid`` if the form's data do not allow it."""
        raise NotImplementedError

    def dispatch(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        self.row: Any = self._find_row() if self.is_per_row else None
        return super().dispatch(request, *args, **kwargs)

    def form_valid(self, form: forms.Form) -> HttpResponse:
        with refusal_beside(form):
            done = self.perform(form)
        return self.form_invalid(form) if form.errors else done

    def form_invalid(self, form: forms.Form) -> HttpResponse:
        return self.render_to_response(self.get_context_data(form=form), status=Invalid.status)

    def redirect_to_row(self, row: Model, message: str) -> HttpResponse:
        """Redirects to the page of the row, which shows the message."""
        messages.success(self.request, message)
        return redirect(self._control.page_url("change", row))

    def redirect_to_list(self, message: str) -> HttpResponse:
        """Redirects to the list, which shows the message. For a row that is there no more."""
        messages.success(self.request, message)
        return redirect(self._control.page_url("changelist"))

    def get_context_data(self, **kwargs: object) -> dict[str, object]:
        return super().get_context_data(
            **self._control.admin_site.each_context(self.request),
            title=f"{self.label} {self.row}" if self.row else self.label,
            label=self.label,
            submit=self.submit or self.label,
            is_destructive=self.is_destructive,
            opts=self._control.opts,
            row=self.row,
            back=self._control.page_url("change" if self.row else "changelist", self.row),
            consequences=self.consequences(),
            **kwargs,
        )

    @property
    def actor(self) -> Actor:
        """The staff member who performs the action, as the actor of its events."""
        actor: Actor = self.request.user.actor  # type: ignore[union-attr]
        return actor

    def _find_row(self) -> Any:
        row = self._control.get_object(self.request, unquote(self.kwargs["object_id"]))
        if row is None:
            raise Http404
        if not self.applies_to(row):
            raise Invalid("This action is no longer possible: it has already happened.")
        return row

"""The page of a row, which is there to be read, and the pages that do one thing each."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import quote, unquote
from django.contrib.admin.views.main import ChangeList
from django.db.models import DateTimeField, Model, Q
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.views.generic import FormView

from events.control.lists import FirstRows, IndexedList, Narrowing, Rows, as_sent
from events.refusals import Invalid


class Tool(NamedTuple):
    """A link to a page that does one thing."""

    label: str
    url: str


class ReadOnly(admin.ModelAdmin):  # type: ignore[type-arg]
    """The list of a model's rows and the page of each: nothing here adds, changes or deletes."""

    # The pages that do something, each by the last part of its address.
    pages: ClassVar[Mapping[str, type["FormPage"]]] = {}
    # Where a search looks, by what its text begins with: "" stands for any other text.
    searches: ClassVar[Mapping[str, Callable[[str], Q]]] = {}

    fields: ClassVar[Sequence[str]] = ()  # type: ignore[assignment]
    list_display: Sequence[Any] = ()  # type: ignore[assignment]
    list_filter: ClassVar[Sequence[type[Narrowing]]] = ()  # type: ignore[assignment]

    actions = None
    list_per_page = 100
    paginator = FirstRows
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
        """The stock list and page of a row, and our own pages; none of the stock forms."""
        kept = {self.url_name("changelist"), self.url_name("change")}
        return [
            *(self._own_url(name, page) for name, page in self.pages.items()),
            *(url for url in super().get_urls() if url.name in kept),
        ]

    def url_name(self, name: str) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_{name}"

    def url_of(self, name: str, row: Model | None = None) -> str:
        """The address of one of the pages, of one row where the page is about one."""
        key = [quote(row.pk)] if row else []
        return reverse(f"admin:{self.url_name(name)}", args=key)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return IndexedList

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Only the filters beside the list: no asking about columns that are not shown."""
        return lookup in {narrowing.parameter_name for narrowing in self.list_filter}

    def get_search_fields(self, request: HttpRequest) -> list[str]:
        return list(self.searches)

    def get_search_results(
        self, request: HttpRequest, queryset: Rows, search_term: str
    ) -> tuple[Rows, bool]:
        text = search_term.strip()
        if not text:
            return queryset, False
        for beginning, condition in self.searches.items():
            if text.startswith(beginning):
                return queryset.filter(condition(text)), False
        return queryset.none(), False

    def get_list_display(self, request: HttpRequest) -> Any:
        return [self._column(name) for name in self.list_display]

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return [self._column(name) for name in self.fields]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return self.get_fields(request, obj)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        tools = [
            Tool(page.label, self.url_of(name))
            for name, page in self.pages.items()
            if not page.of_row
        ]
        title = str(self.opts.verbose_name_plural).capitalize()
        return super().changelist_view(request, {"title": title, "tools": tools})

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        row = self.get_object(request, unquote(object_id))
        tools = self.row_tools(row) if row else []
        title = str(self.opts.verbose_name).capitalize()
        return super().change_view(request, object_id, form_url, {"title": title, "tools": tools})

    def row_tools(self, row: Any) -> list[Tool]:
        """The pages that can do something with this row as it is."""
        return [
            Tool(page.label, self.url_of(name, row))
            for name, page in self.pages.items()
            if page.of_row and page.fits(row)
        ]

    def _column(self, name: str) -> Any:
        """What shows a field of this name, where the framework would not show it as it is sent."""
        fields = {field.name: field for field in self.opts.concrete_fields}
        field = fields.get(name)
        if field and (field.choices or isinstance(field, DateTimeField)):
            return as_sent(field)
        return name

    def _own_url(self, name: str, page: type["FormPage"]) -> URLPattern:
        route = f"<path:object_id>/{name}/" if page.of_row else f"{name}/"
        view = self.admin_site.admin_view(page.as_view(control=self))
        return path(route, view, name=self.url_name(name))


class FormPage(FormView):  # type: ignore[type-arg]
    """A page that does one thing: it says what will happen, and on POST it happens."""

    label: ClassVar[str]
    of_row: ClassVar[bool] = True

    control: ReadOnly | None = None
    form_class = forms.Form
    template_name = "control/form.html"

    @staticmethod
    def fits(row: Any) -> bool:
        """Says whether there is anything to do with this row."""
        return True

    def consequences(self) -> list[str]:
        """What will happen, in sentences."""
        raise NotImplementedError

    def act(self, form: Any) -> HttpResponse:
        """Makes it happen; raises ``Invalid`` where the form asks for what cannot be."""
        raise NotImplementedError

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        self.row: Any = self._find_row() if self.of_row else None
        return super().dispatch(request, *args, **kwargs)

    def form_valid(self, form: Any) -> HttpResponse:
        try:
            return self.act(form)
        except Invalid as refusal:
            for error in refusal.members.get("errors", []):
                form.add_error(error["field"], error["detail"])
            if form.is_valid():
                form.add_error(None, refusal.detail)
            return self.form_invalid(form)

    def form_invalid(self, form: Any) -> HttpResponse:
        return self.render_to_response(self.get_context_data(form=form), status=Invalid.status)

    def done(self, row: Model, message: str) -> HttpResponse:
        """Back to the page of the row, which says what was done."""
        messages.success(self.request, message)
        return redirect(self._control.url_of("change", row))

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(
            **self._control.admin_site.each_context(self.request),
            title=f"{self.label} {self.row}" if self.row else self.label,
            label=self.label,
            opts=self._control.opts,
            row=self.row,
            back=self._control.url_of("change" if self.row else "changelist", self.row),
            consequences=self.consequences(),
            **kwargs,
        )

    @property
    def _control(self) -> ReadOnly:
        assert self.control is not None
        return self.control

    def _find_row(self) -> Any:
        row = self._control.get_object(self.request, unquote(self.kwargs["object_id"]))
        if row is None:
            raise Http404
        if not self.fits(row):
            raise Invalid("This is over already: there is nothing left to do.")
        return row

"""What a desk's owner searches for in the activity."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django import forms
from django.http import HttpRequest
from django.utils.http import urlencode

from desks.models import Automation, Desk
from events.feed.dates import first_positions
from events.feed.reading import MAX_POSITION, Query
from events.http.refusals import Invalid
from events.kinds import SUPPRESSED
from signals.intake.incoming import MAX_SENT_LENGTH
from signals.reports.activity import KIND_LABELS
from signals.reports.reasons import REASONS, title_of

# The labels of the codes that the log records.
CODE_LABELS = {code: f"{title_of(code)} ({code})" for code in (*REASONS, SUPPRESSED)}
ALL_KINDS, ALL_BOTS, ALL_CODES = "Every kind", "Every bot", "Every refusal"
# The columns of ``Event`` by the fields of the form.
COLUMNS = {"bot": "bot_id", "pair": "pair", "code": "code"}


class FilterForm(forms.Form):
    """The fields of the filter. Each may be empty. A day is a day in UTC."""

    kind = forms.ChoiceField(required=False, choices=[("", ALL_KINDS), *KIND_LABELS.items()])
    bot = forms.ChoiceField(required=False)
    pair = forms.CharField(
        required=False,
        max_length=MAX_SENT_LENGTH,
        widget=forms.TextInput({"placeholder": "BASE/QUOTE", "autocomplete": "off"}),
    )
    code = forms.ChoiceField(
        label="Refusal",
        required=False,
        choices=[("", ALL_CODES), *CODE_LABELS.items()],
    )
    since = forms.DateField(
        label="From day (UTC)", required=False, widget=forms.DateInput({"type": "date"})
    )
    until = forms.DateField(
        label="To day (UTC)", required=False, widget=forms.DateInput({"type": "date"})
    )

    def __init__(self, data: Any, desk: Desk) -> None:
        super().__init__(data, initial={})
        bots = Automation.objects.filter(desk=desk)
        names = dict(bots.not_removed().values_list("pk", "name"))
        asked = data.get("bot", "")
        if asked and asked not in names:
            removed = bots.filter(pk=asked).values_list("pk", "name")
            names |= {bot_id: f"{name} (removed)" for bot_id, name in removed}
        self.names = names
        self.fields["bot"].choices = [("", ALL_BOTS), *names.items()]  # type: ignore[attr-defined]

    @property
    def query_string(self) -> str:
        """The fields that are not empty, for links to other pages of the same search."""
        return urlencode(
            {name: value for name, value in self.data.items() if value and name in self.fields}
        )

    @property
    def is_used(self) -> bool:
        return bool(self.query_string)


def read_filter(request: HttpRequest, desk: Desk) -> FilterForm:
    """Reads the filter from the query string. Raises ``Invalid``, with an error for each field."""
    form = FilterForm(request.GET, desk)
    if not form.is_valid():
        raise Invalid(
            errors=[
                {
                    "field": name,
                    "code": "unknown",
                    "detail": f"{form.fields[name].label or name}: {text}",
                }
                for name, texts in form.errors.items()
                for text in texts
            ]
        )
    return form


def query_of(form: FilterForm, **paging: Any) -> Query:
    """The query of a valid filter. ``paging`` are further members of ``Query``."""
    asked = form.cleaned_data
    first, last = _positions(asked["since"], asked["until"])
    return Query(
        first=first,
        last=last,
        kinds=(asked["kind"],) if asked["kind"] else (),
        having={column: asked[name] for name, column in COLUMNS.items() if asked[name]},
        **paging,
    )


def _positions(since: date | None, until: date | None) -> tuple[int, int]:
    """The first and the last position of these days, both included."""
    begins = [_begin(since)] if since else []
    ends = [_begin(until + timedelta(days=1))] if until and until < date.max else []
    found = first_positions([*begins, *ends])
    return (found[0] if begins else 1), (found[-1] - 1 if ends else MAX_POSITION)


def _begin(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)

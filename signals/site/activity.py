"""A desk's activity: the list, one event, the search as CSV, and the hint that there is news.

The quick search of the list takes one text, and finds out what it is: the id of an event, which it
opens, or a value of the filter.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from typing import cast

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from desks.models import Automation, Desk, User
from desks.visibility import desk_visibility
from events import replica
from events.feed import (
    WHOLE_LOG,
    Query,
    Visibility,
    Window,
    limit_spans,
    limit_to_times,
    read_at,
    read_head,
    read_page,
)
from events.http.refusals import CsrfFailed, FieldCode, Invalid, found_or_404
from events.kinds import SUPPRESSED, Kind
from events.live.frames import Version
from events.live.opening import Start, open_stream
from events.live.streams import ReaderSpec
from events.times import to_rfc3339
from signals.intake.incoming_signal import MAX_SENT_LENGTH
from signals.law.refusals import EXPLANATIONS
from signals.page_access import customer_page
from signals.reports.activity import Line, bot_names, cursors, lines, newest_first
from signals.reports.counts import facets
from signals.reports.explanation import story_of
from signals.reports.reasons import title_of
from signals.site.downloads import download
from signals.site.own_data import all_pages, csv_line
from tokens.callers.stream_sessions import session_credential

# --- The search -----------------------------------------------------------------------------------

# The labels of the codes that the log records.
CODE_LABELS = {code: f"{title_of(code)} ({code})" for code in (*EXPLANATIONS, SUPPRESSED)}
ALL_KINDS, ALL_BOTS, ALL_CODES = "Every kind", "Every bot", "Every refusal"
# The columns of ``Event`` by the fields of the form.
COLUMNS = {"bot": "bot_id", "pair": "pair", "code": "code"}


class FilterForm(forms.Form):
    """The fields of the filter. Each may be empty. A day is a day in the active time zone."""

    kind = forms.ChoiceField(required=False, choices=[("", ALL_KINDS), *Kind.choices])
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
    since = forms.DateField(required=False, widget=forms.DateInput({"type": "date"}))
    until = forms.DateField(required=False, widget=forms.DateInput({"type": "date"}))

    def __init__(self, data: QueryDict, desk: Desk) -> None:
        super().__init__(data, initial={})
        bots = Automation.objects.filter(desk=desk)
        names = dict(bots.not_removed().values_list("pk", "name"))
        asked = data.get("bot", "")
        if asked and asked not in names:
            removed = bots.filter(pk=asked).values_list("pk", "name")
            names |= {bot_id: f"{name} (removed)" for bot_id, name in removed}
        self.names = names
        zone = timezone.get_current_timezone_name().removeprefix("Etc/")
        self.fields["since"].label = f"From day ({zone})"
        self.fields["until"].label = f"To day ({zone})"
        self.fields["bot"].choices = [("", ALL_BOTS), *names.items()]  # type: ignore[attr-defined]

    def show_facets(self, desk: Desk) -> None:
        """Offers only what occurs in the range of days, with its count, and what is chosen."""
        query = limit_to_times(Query(), *self.range)
        window = Window(query.first, min(query.last, read_head().position), descending=True)
        spans, _, _ = limit_spans(desk_visibility(desk)(window), window)
        values = {"bot_id": self.names, "code": CODE_LABELS}
        found = facets(desk.public_id, spans, window, values)
        for name in ("kind", "bot", "code"):
            counts = found.get(COLUMNS.get(name, name), {})
            (_, everything), *choices = self.fields[name].choices  # type: ignore[attr-defined]
            chosen = self.cleaned_data[name]
            self.fields[name].widget.choices = [
                ("", everything),
                *(
                    (value, f"{label}: {counts.get(value, 0)}")
                    for value, label in choices
                    if value in counts or value == chosen
                ),
            ]

    @property
    def range(self) -> tuple[datetime | None, datetime | None]:
        """From when and until when the events are, as ``limit_to_times`` takes it."""
        since, until = self.cleaned_data["since"], self.cleaned_data["until"]
        return (
            _begin(since) if since and since > date.min else None,
            _begin(until + timedelta(days=1)) if until and until < date.max else None,
        )

    @property
    def query_string(self) -> str:
        """The fields that are not empty, for links to other pages of the same search."""
        return urlencode(
            {name: value for name, value in self.data.items() if value and name in self.fields}
        )


def read_filter(request: HttpRequest, desk: Desk) -> FilterForm:
    """Reads the filter from the query string. Raises ``Invalid``, with an error for each field."""
    form = FilterForm(request.GET, desk)
    if not form.is_valid():
        raise Invalid(
            errors=[
                {
                    "field": name,
                    "code": FieldCode.CHOICE,
                    "detail": f"{form.fields[name].label or name}: {text}",
                }
                for name, texts in form.errors.items()
                for text in texts
            ]
        )
    return form


def query_of(form: FilterForm) -> Query:
    """The query of a valid filter."""
    asked = form.cleaned_data
    query = Query(
        kinds=(asked["kind"],) if asked["kind"] else (),
        having={column: asked[name] for name, column in COLUMNS.items() if asked[name]},
    )
    return limit_to_times(query, *form.range)


def _begin(day: date) -> datetime:
    return datetime.combine(day, time.min, timezone.get_current_timezone())


def address_of(text: str, form: FilterForm) -> str:
    """Where the quick search leads: to the event with this id, or to the filter with this value.

    What is neither a bot nor a code of the filter is searched for as a pair.
    """
    if EVENT_ID.fullmatch(text):
        return reverse("event", args=[text])
    bots = {name.casefold(): bot_id for bot_id, name in form.names.items()}
    bot = text if text in form.names else bots.get(text.casefold())
    found = {"bot": bot} if bot else {"code" if text in CODE_LABELS else "pair": text}
    return f"{reverse('activity')}?{urlencode(found)}"


# --- The list: newest first, filtered and paginated -----------------------------------------------

PAGE_SIZE = 50


@customer_page("GET")
def activity(request: HttpRequest, desk: Desk) -> HttpResponse:
    """One page of events older than the cursor ``after``, or newer than it with ``newer``.

    With ``fragment`` only the list, for an open page that asks for new events. ``q`` is a quick
    search. Raises ``Invalid`` or ``CursorLost``.
    """
    form = read_filter(request, desk)
    if text := request.GET.get("q", "").strip():
        return redirect(address_of(text, form))
    query = replace(
        query_of(form),
        after=_after(request),
        limit=PAGE_SIZE,
        descending="newer" not in request.GET,
    )
    page = read_page(query, desk_visibility(desk))
    shown = lines(newest_first(query, page), bot_names(desk))
    if "fragment" in request.GET:
        return render(request, "events/list.html", {"lines": shown})
    form.show_facets(desk)
    context = {
        "form": form,
        "lines": shown,
        "is_latest": query.after is None,
        **cursors(query, page),
    }
    return render(request, "pages/activity.html", context)


def _after(request: HttpRequest) -> int | None:
    """The position in the cursor. Raises ``Invalid`` or ``CursorLost``."""
    after = request.GET.get("after", "")
    if not after:
        return None
    return replica.find(after)[1]


# --- One event: what was sent, what was elected, what decided it, what to do now ------------------

EVENT_ID = re.compile(r"evt_([1-9][0-9]{0,17})", re.ASCII)


@customer_page("GET")
def one_event(request: HttpRequest, desk: Desk, event_id: str) -> HttpResponse:
    """One event that the desk sees. Raises ``NotFound`` for any other."""
    position = int(match[1]) if (match := EVENT_ID.fullmatch(event_id)) else 0
    event = found_or_404(read_at([position], desk_visibility(desk)).get(position), "event")
    (line,) = lines([event], bot_names(desk))
    context = {"line": line, **story_of(event, line, desk)}
    return render(request, "pages/event.html", context)


# --- The search as a CSV file, made page by page while it is sent ---------------------------------

CSV_PAGE_SIZE = 200
# Another site's page can send a browser here with its cookie, and so use up its user's exports.
# Browsers say so in Sec-Fetch-Site; of those that do not, every request is accepted.
FROM_NO_PAGE, FROM_OUR_PAGE = "none", "same-origin"
FROM_ANOTHER_SITE = "A page of another site asked for this file. Download it on the activity page."
CSV_COLUMNS = (
    *("time", "event", "kind", "bot", "bot name", "source", "pair", "direction"),
    *("elected pair", "elected direction", "code", "reason", "nonce", "signal", "request"),
)


@customer_page("GET")
def export(request: HttpRequest, desk: Desk) -> HttpResponseBase:
    """Every event of the search, newest first. Raises ``Invalid``, or ``CsrfFailed``."""
    if request.headers.get("Sec-Fetch-Site", FROM_NO_PAGE) not in (FROM_NO_PAGE, FROM_OUR_PAGE):
        raise CsrfFailed(FROM_ANOTHER_SITE)
    query = query_of(read_filter(request, desk))
    query = replace(query, limit=CSV_PAGE_SIZE, descending=True)
    rows = _rows(query, desk, bot_names(desk))
    return download(
        request, desk, rows, filename="activity.csv", content_type="text/csv; charset=utf-8"
    )


def _rows(query: Query, desk: Desk, bots: Mapping[str, str]) -> Iterator[bytes]:
    """The lines of the file. After each page of the log there is a part, even if it is empty."""
    yield csv_line(CSV_COLUMNS).encode()
    for page in all_pages(query, desk_visibility(desk)):
        for line in lines(page.events, bots):
            yield csv_line(_cells(line)).encode()
        yield b""


def _cells(line: Line) -> list[object]:
    recorded = line.signal or line.data
    card = recorded.get("card")  # of an election its name
    sent = line.data.get("sent") or (card if isinstance(card, dict) else recorded)
    elected = line.data.get("elected") or {}
    return [
        to_rfc3339(line.at),
        line.event_id,
        line.kind,
        line.bot_id,
        line.bot_name,
        recorded.get("source"),
        *_pair_of(sent),
        *_pair_of(elected),
        line.data.get("code"),
        line.reason,
        recorded.get("nonce"),
        (line.signal or {}).get("id"),
        line.data.get("requestId"),
    ]


def _pair_of(recorded: object) -> tuple[object, object]:
    """The pair and the direction. What events record under some names is no such object."""
    found = recorded if isinstance(recorded, dict) else {}
    return found.get("pair"), found.get("direction")


# --- Streams of the pages -------------------------------------------------------------------------

# They say that something new happened, but not what: an open page then fetches what it shows. A
# session opens the stream, and ends it.


@customer_page("GET")
def desk_hints(request: HttpRequest, desk: Desk) -> HttpResponseBase:
    """A hint for each new event of the desk."""
    return _hint_stream(request, desk.public_id, desk_visibility(desk), is_platform=False)


def log_hints(request: HttpRequest) -> HttpResponseBase:
    """A hint for each new event of the log, for staff."""
    owner = f"user:{request.user.pk}"
    return _hint_stream(request, owner, lambda window: WHOLE_LOG, is_platform=True)


def _hint_stream(
    request: HttpRequest, owner: str, visibility: Visibility, *, is_platform: bool
) -> HttpResponseBase:
    spec = ReaderSpec(
        credential=session_credential(request, cast(User, request.user)),
        owner=owner,
        is_platform=is_platform,
        version=Version.HINT,
    )
    return open_stream(request, spec, Query(), visibility, Start.now())

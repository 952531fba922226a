"""The filtered activity as a CSV file, streamed page by page, so that any size fits."""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse

from desks.feed.visibility import desk_visibility
from desks.models import Desk
from events.feed.reading import Query, read_page
from events.times import to_rfc3339
from signals.pages.access import customer_page
from signals.pages.activity.filters import query_of, read_filter
from signals.reports.activity import Line, bot_names, lines
from signals.reports.export import safe_cell

PAGE_SIZE = 1000
COLUMNS = (
    *("time", "event", "kind", "bot", "bot name", "source", "pair", "direction"),
    *("elected pair", "elected direction", "code", "reason", "nonce", "signal", "request"),
)


class _Echo:
    """A file whose ``write`` returns the text, which the CSV writer passes on."""

    def write(self, text: str) -> str:
        return text


@customer_page("GET")
def export(request: HttpRequest, desk: Desk) -> HttpResponseBase:
    """Every event of the search, newest first. Raises ``Invalid``."""
    query = query_of(read_filter(request, desk), limit=PAGE_SIZE, descending=True)
    rows = _rows(query, desk, bot_names(desk)) if request.method == "GET" else iter(())
    response = StreamingHttpResponse(rows, content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="activity.csv"'
    return response


def _rows(query: Query, desk: Desk, bots: Mapping[str, str]) -> Iterator[str]:
    write = csv.writer(_Echo()).writerow
    yield write(COLUMNS)
    while True:
        page = read_page(query, desk_visibility(desk))
        for line in lines(page.events, bots):
            yield write([safe_cell(value) for value in _cells(line)])
        if not page.more:
            return
        query = replace(query, after=page.examined)


def _cells(line: Line) -> list[Any]:
    told = line.signal or line.data
    sent = line.data.get("sent") or told.get("card") or told
    elected = line.data.get("elected") or {}
    return [
        to_rfc3339(line.at),
        line.event_id,
        line.kind,
        line.bot_id,
        line.bot_name,
        told.get("source"),
        *_pair_of(sent),
        *_pair_of(elected),
        line.data.get("code"),
        line.reason,
        told.get("nonce"),
        (line.signal or {}).get("id"),
        line.data.get("requestId"),
    ]


def _pair_of(told: Any) -> tuple[Any, Any]:
    return (told.get("pair"), told.get("direction")) if isinstance(told, dict) else (None, None)

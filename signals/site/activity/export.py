"""The filtered activity as a CSV file, streamed page by page, so that any size fits."""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponseBase

from desks.feed.visibility import desk_visibility
from desks.models import Desk
from events.feed.reading import Query, read_page
from events.times import to_rfc3339
from signals.reports.activity import Line, bot_names, lines
from signals.site.activity.filters import query_of, read_filter
from signals.site.downloads import download
from signals.site.export import safe_cell
from signals.web.access import customer_page

PAGE_SIZE = 200
COLUMNS = (
    *("time", "event", "kind", "bot", "bot name", "source", "pair", "direction"),
    *("elected pair", "elected direction", "code", "reason", "nonce", "signal", "request"),
)


class _Echo:
    """A file whose ``write`` returns the bytes, which the CSV writer passes on."""

    def write(self, text: str) -> bytes:
        return text.encode()


@customer_page("GET")
def export(request: HttpRequest, desk: Desk) -> HttpResponseBase:
    """Every event of the search, newest first. Raises ``Invalid``."""
    query = query_of(read_filter(request, desk), limit=PAGE_SIZE, descending=True)
    rows = _rows(query, desk, bot_names(desk))
    return download(
        request, desk, rows, filename="activity.csv", content_type="text/csv; charset=utf-8"
    )


def _rows(query: Query, desk: Desk, bots: Mapping[str, str]) -> Iterator[bytes]:
    """The lines of the file. After each page of the log there is a part, even if it is empty."""
    write = csv.writer(_Echo()).writerow
    yield write(COLUMNS)
    while True:
        page = read_page(query, desk_visibility(desk))
        for line in lines(page.events, bots):
            yield write([safe_cell(value) for value in _cells(line)])
        yield b""
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

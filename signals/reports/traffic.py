"""Recent traffic: accepted and refused signals over time, by source and by code."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models.fields.json import KT

from events.http.refusals import Refused
from events.kinds import Kind
from events.models import Event
from signals.intake.models import Signal
from signals.reports.charts import Chart, length, over_time
from tokens.choices import Source

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
FIVE_MINUTES = timedelta(minutes=5)
# At most this many accepted and refused signals are read, so that a busy day costs no more.
SCAN_LIMIT = 10_000
WHOLE_BAR = 100
UNKNOWN_SOURCE = "none of these"


class TrafficEntry(NamedTuple):
    """One authorised signal. ``code`` is the code of its refusal, or None if it was accepted."""

    at: datetime
    source: str
    code: str | None

    @property
    def is_refusal(self) -> bool:
        return self.code is not None


@dataclass(frozen=True, slots=True)
class Share:
    """The part of the traffic from one source or refused with one code. Bars are in per cent."""

    name: str
    hour_accepted: int
    hour_refused: int
    accepted: int
    refused: int
    accepted_bar: int
    refused_bar: int

    @property
    def has_page(self) -> bool:
        """Whether its name is a code with a page.

        What stands for refusals left out has none, nor has a code of a later release.
        """
        return Refused.of(self.name) is not None


@dataclass(frozen=True, slots=True)
class Traffic:
    """The last hour in intervals of five minutes, and the last day by the hour.

    ``since`` is None if the counts cover the whole day. Otherwise the day had more signals than
    ``SCAN_LIMIT``, and the counts begin at that time.
    """

    hour: Chart
    day: Chart
    sources: list[Share]
    codes: list[Share]
    since: datetime | None


def recent_traffic(now: datetime) -> Traffic:
    """Returns the accepted signals and recorded refusals of the last day, in two queries."""
    accepted, refused = _accepted(), _refused()
    ends = [entries[-1].at for entries in (accepted, refused) if len(entries) == SCAN_LIMIT]
    since = max(ends, default=now - DAY)
    day = [entry for entry in (*accepted, *refused) if entry.at >= max(since, now - DAY)]
    pushed = [(entry.at, entry.is_refusal) for entry in day]
    return Traffic(
        hour=over_time(pushed, now, FIVE_MINUTES, HOUR // FIVE_MINUTES),
        day=over_time(pushed, now, HOUR, DAY // HOUR),
        sources=_shares(day, now, lambda entry: entry.source),
        codes=_shares([entry for entry in day if entry.code], now, lambda entry: entry.code or ""),
        since=since if since > now - DAY else None,
    )


def _accepted() -> list[TrafficEntry]:
    newest = Signal.objects.order_by("-position").values_list("received_at", "source")
    return [TrafficEntry(at, source, None) for at, source in newest[:SCAN_LIMIT]]


def _refused() -> list[TrafficEntry]:
    newest = (
        Event.objects.filter(kind=Kind.SIGNAL_REFUSED)
        .order_by("-position")
        .values_list("at", KT("content__data__source"), KT("content__data__code"))
    )
    return [
        TrafficEntry(at, source if source in Source.values() else UNKNOWN_SOURCE, code)
        for at, source, code in newest[:SCAN_LIMIT]
    ]


def _shares(
    day: Sequence[TrafficEntry], now: datetime, name_of: Callable[[TrafficEntry], str]
) -> list[Share]:
    """Counts the entries by name, the largest number first."""
    entries = Counter(name_of(entry) for entry in day)
    of_day = Counter((name_of(entry), entry.is_refusal) for entry in day)
    of_hour = Counter((name_of(entry), entry.is_refusal) for entry in day if entry.at > now - HOUR)
    maximum = max(entries.values(), default=0)
    return [
        Share(
            name=name,
            hour_accepted=of_hour[name, False],
            hour_refused=of_hour[name, True],
            accepted=of_day[name, False],
            refused=of_day[name, True],
            accepted_bar=length(of_day[name, False], maximum, WHOLE_BAR),
            refused_bar=length(of_day[name, True], maximum, WHOLE_BAR),
        )
        for name in sorted(entries, key=lambda name: (-entries[name], name))
    ]

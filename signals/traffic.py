"""What came in of late: accepted and refused, over time, by source and by code."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models.fields.json import KT

from events.kinds import Kind
from events.models import Event
from signals.charts import Chart, length, over_time
from signals.models import Signal
from tokens.models import Source

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
FIVE_MINUTES = timedelta(minutes=5)
# Of the accepted and of the refused so many are looked through, so that a busy day costs no more.
LOOKED_THROUGH = 10_000
WHOLE_BAR = 100
UNKNOWN_SOURCE = "none of these"


class Received(NamedTuple):
    """One authorised signal: ``code`` is that of its refusal, null where it was accepted."""

    at: datetime
    source: str
    code: str | None


@dataclass(frozen=True, slots=True)
class Share:
    """What of the traffic is of one source, or was refused for one reason; bars are per cent."""

    name: str
    hour_accepted: int
    hour_refused: int
    accepted: int
    refused: int
    accepted_bar: int
    refused_bar: int


@dataclass(frozen=True, slots=True)
class Traffic:
    """The last hour in stretches of five minutes and the last day by the hour.

    ``since`` is null where that is all of it; else the day was busier than what is looked through,
    and what is counted began then.
    """

    hour: Chart
    day: Chart
    sources: list[Share]
    codes: list[Share]
    since: datetime | None


def traffic(now: datetime) -> Traffic:
    """What was accepted, and refused with a record, until now. Two queries."""
    accepted, refused = _accepted(), _refused()
    ends = [found[-1].at for found in (accepted, refused) if len(found) == LOOKED_THROUGH]
    since = max(ends, default=now - DAY)
    day = [one for one in (*accepted, *refused) if one.at >= max(since, now - DAY)]
    pushed = [(one.at, one.code is not None) for one in day]
    return Traffic(
        hour=over_time(pushed, now, FIVE_MINUTES, HOUR // FIVE_MINUTES),
        day=over_time(pushed, now, HOUR, DAY // HOUR),
        sources=_shares(day, now, lambda one: one.source),
        codes=_shares([one for one in day if one.code], now, lambda one: one.code or ""),
        since=since if since > now - DAY else None,
    )


def _accepted() -> list[Received]:
    newest = Signal.objects.order_by("-position").values_list("received_at", "source")
    return [Received(at, source, None) for at, source in newest[:LOOKED_THROUGH]]


def _refused() -> list[Received]:
    newest = (
        Event.objects.filter(kind=Kind.SIGNAL_REFUSED)
        .order_by("-position")
        .values_list("at", KT("content__data__source"), KT("content__data__code"))
    )
    return [
        Received(at, source if source in Source.values else UNKNOWN_SOURCE, code)
        for at, source, code in newest[:LOOKED_THROUGH]
    ]


def _shares(
    received: Sequence[Received], now: datetime, name: Callable[[Received], str]
) -> list[Share]:
    """The shares by name, the largest first."""
    groups: dict[str, list[Received]] = {}
    for one in received:
        groups.setdefault(name(one), []).append(one)
    most = max(map(len, groups.values()), default=0)
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    return [_share(called, of_it, now, most) for called, of_it in ordered]


def _share(name: str, received: Sequence[Received], now: datetime, most: int) -> Share:
    refused = sum(one.code is not None for one in received)
    hour = [one.code is not None for one in received if one.at > now - HOUR]
    return Share(
        name=name,
        hour_accepted=len(hour) - sum(hour),
        hour_refused=sum(hour),
        accepted=len(received) - refused,
        refused=refused,
        accepted_bar=length(len(received) - refused, most, WHOLE_BAR),
        refused_bar=length(refused, most, WHOLE_BAR),
    )

"""Times on pages: relative, such as "3 hours ago". ``templates/time.html`` adds the full time."""

from datetime import datetime, timedelta

from django import template
from django.utils import dateformat, timezone

from events.times import exact_span, relative, span

register = template.Library()


@register.filter
def iso(at: datetime) -> str:
    """The time as HTML's ``datetime`` has it, in the page's zone."""
    return _in_zone_of_page(at).isoformat()


@register.filter
def full(at: datetime) -> str:
    """The full time, in the page's zone."""
    return dateformat.format(_in_zone_of_page(at), "j M Y, H:i:s T")


@register.filter
def ago(at: datetime) -> str:
    """The time relative to now."""
    return relative(at, timezone.now())


@register.filter
def lasted(since: datetime, until: datetime | None = None) -> str:
    """How long it is from the time until now, or until another time."""
    return span((until or timezone.now()) - since)


@register.filter
def is_ahead(at: datetime | None) -> bool:
    """Whether the time is still to come. False if there is none."""
    return at is not None and at > timezone.now()


@register.filter
def parsed(text: str) -> datetime:
    """The time of a text in the API's format."""
    return datetime.fromisoformat(text)


@register.filter
def exactly(seconds: int) -> str:
    """The length of time in words, without rounding."""
    return exact_span(timedelta(seconds=seconds))


def _in_zone_of_page(at: datetime) -> datetime:
    """The time in the page's zone, or in UTC if it would be after the year 9999 there.

    A token may expire in the last hour of that year. Filters of Django would raise an error.
    """
    try:
        return timezone.localtime(at)
    except OverflowError:
        return at

"""Times on pages: relative, such as "3 hours ago". ``templates/time.html`` adds the full time."""

from datetime import datetime, timedelta

from django import template
from django.utils import timezone

from events.times import exact_span, relative, span

register = template.Library()


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

"""How many desks came back: those that a card's publication unenrolled, and that enrolled again."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.safestring import SafeString

from desks.models import Card, Election
from events.times import span

MAX_READ = 10_000  # elections, so that a card of a million desks costs no more
MILESTONES = [
    timedelta(minutes=15),
    timedelta(hours=1),
    timedelta(hours=6),
    timedelta(days=1),
    timedelta(days=3),
    timedelta(days=7),
    timedelta(days=30),
]


@dataclass(frozen=True, slots=True)
class Milestone:
    """How many desks had enrolled again this long after the publication. ``bar`` is in per cent."""

    after: str
    returned: int
    bar: int


@dataclass(frozen=True, slots=True)
class Enrolment:
    """``unenrolled`` desks were enrolled in the ``previous`` card when it was retired.

    ``joined`` counts desks that were not. If ``is_complete`` is False, the counts cover only the
    first ``MAX_READ`` elections on the card.
    """

    previous: Card
    unenrolled: int
    returned: int
    joined: int
    milestones: list[Milestone]
    is_complete: bool


def tell_enrolment(card: Card) -> SafeString:
    """The section of a card's page: how many desks enrolled again, over time."""
    found = enrolment(card, timezone.now())
    return render_to_string("control/enrolment.html", {"found": found, "max_read": MAX_READ})


def enrolment(card: Card, now: datetime) -> Enrolment | None:
    """Who enrolled in the card since it was published, or None if it is the first card."""
    previous = Card.objects.filter(opened__lt=card.opened).order_by("-opened").first()
    if previous is None:
        return None
    # Retiring a card leaves its elections open: the open ones are those that it ended.
    ended = Election.objects.filter(desk=OuterRef("desk"), card=previous, closed=None)
    elections = Election.objects.filter(card=card).order_by("opened")
    rows = list(
        elections.annotate(again=Exists(ended)).values_list("desk", "elected_at", "again")[
            :MAX_READ
        ]
    )
    first = {desk: (at, again) for desk, at, again in reversed(rows)}
    times = [at - card.published_at for at, again in first.values() if again]
    age = (card.retired_at or now) - card.published_at
    return Enrolment(
        previous=previous,
        unenrolled=previous.standing,
        returned=len(times),
        joined=len(first) - len(times),
        milestones=list(_milestones(times, age, previous.standing)),
        is_complete=len(rows) < MAX_READ,
    )


def _milestones(times: list[timedelta], age: timedelta, of: int) -> Iterator[Milestone]:
    """The counts at each milestone that the card has reached, and at its age."""
    for after in [*(each for each in MILESTONES if each < age), age]:
        returned = sum(time <= after for time in times)
        yield Milestone(span(after), returned, round(100 * returned / of) if of else 0)

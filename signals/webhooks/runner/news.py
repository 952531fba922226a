"""Which webhooks have news, and how long it waits: asked for all of them together.

What /metrics says is read from the database, so it is the same for every runner. No label names a
webhook, a desk or a host.
"""

from collections.abc import Iterable
from datetime import datetime
from itertools import chain

from django.db.models import Case, Count, Exists, F, Min, OuterRef, Q, Subquery, Value, When
from django.utils import timezone

from desks.ids import CARD
from desks.models import Election
from events.feed import read_head
from events.kinds import EVERYONE
from events.models import Event
from events.statements import listed
from signals.webhooks.models import FAILING, SHOWN_STATES, State, Subscription

# With more news than this at once it is cheaper to ask who is behind.
MAX_NEWS = 5000


def with_news(after: int, until: int) -> list[int]:
    """The active webhooks that the events between these positions may concern.

    ``after`` is exclusive. A webhook may be named that has no news, never the other way round:
    an election that opens a card's topic is an event of the desk's own topic.
    """
    if until - after > MAX_NEWS:
        return behind()
    events = Event.objects.filter(position__gt=after, position__lte=until).order_by()
    news = list(events.values_list("topic", "kind").distinct())
    kinds = {kind for _, kind in news}
    found = _concerned({topic for topic, _ in news if topic})
    return [pk for pk, chosen in found if not chosen or kinds.intersection(chosen)]


def _concerned(topics: set[str]) -> Iterable[tuple[int, list[str]]]:
    """The active webhooks that see one of these topics, with the kinds that they chose.

    A statement for each way to see one: together they would scan the table.
    """
    active = Subscription.objects.filter(state=State.ACTIVE).order_by()
    ways = [active]
    if EVERYONE not in topics:
        cards = [topic for topic in topics if topic.startswith(CARD)]
        elections = Election.objects.filter(card__in=cards)
        of_desks = active.filter(desk__public_id__in=listed(topics))
        ways = [active.filter(desk=None), of_desks]
        if cards:
            ways.append(active.filter(desk__in=elections.values("desk")))
    return chain.from_iterable(rows.values_list("pk", "kinds") for rows in ways)


def behind() -> list[int]:
    """The active webhooks for which there may be events after their cursor."""
    newest = read_head().position
    return list(
        Subscription.objects.filter(_may_have(newest), state=State.ACTIVE)
        .order_by("pk")
        .values_list("pk", flat=True)
    )


def advance_quiet(epoch: str, newest: int) -> int:
    """Moves the cursors of desks' webhooks that saw nothing up to this position.

    So a look at what is behind stays short. Returns their number. ``newest`` must have been read
    before, and nobody may hold a lease: what is in flight saves its own cursor.
    """
    quiet = Subscription.objects.filter(
        ~_may_have(newest),
        state=State.ACTIVE,
        leased_until=None,
        failures=0,
        desk__isnull=False,
        cursor_epoch=epoch,
        cursor_position__lt=newest,
    )
    return quiet.update(cursor_position=newest)


def _may_have(newest: int) -> Q:
    """Whether an event up to this position may be in the view of a webhook, after its cursor.

    A desk sees its own topic, everybody's, and those of the cards that it ever elected.
    """
    later = Event.objects.filter(
        position__gt=OuterRef("cursor_position"), position__lte=newest
    ).order_by()
    cards = Election.objects.filter(desk=OuterRef(OuterRef("desk")), card__isnull=False)
    return (
        Q(Exists(later), desk=None)
        | Q(Exists(later.filter(topic=OuterRef("desk__public_id"))))
        | Q(Exists(later.filter(topic=EVERYONE)))
        | Q(Exists(later.filter(topic__in=cards.values("card"))))
    )


def webhooks_by_state() -> dict[str, int]:
    """The number of webhooks in each state that is shown."""
    is_failing = When(state=State.ACTIVE, failures__gt=0, then=Value(FAILING))
    rows = Subscription.objects.order_by().annotate(shown=Case(is_failing, default=F("state")))
    found = dict(rows.values_list("shown").annotate(Count("pk")))
    return {str(state): found.get(state, 0) for state in SHOWN_STATES}


def lag_seconds() -> float:
    """The age of the oldest event that waits for a runner: not for an endpoint that fails.

    It looks at the desks' own events and, for the platform's webhooks, at all. With 10,000
    webhooks it takes 30 ms.
    """
    later = Event.objects.filter(position__gt=OuterRef("cursor_position")).order_by("position")
    own = later.filter(topic=OuterRef("desk__public_id")).order_by("topic", "position")
    rows = Subscription.objects.filter(state=State.ACTIVE, failures=0, kinds=[])
    desks = rows.filter(desk__isnull=False).annotate(first=Subquery(own.values("at")[:1]))
    platform = rows.filter(desk=None).annotate(first=Subquery(later.values("at")[:1]))
    oldest = [each.aggregate(oldest=Min(F("first")))["oldest"] for each in (desks, platform)]
    waiting: list[datetime] = [at for at in oldest if at is not None]
    return max(0.0, (timezone.now() - min(waiting)).total_seconds()) if waiting else 0.0

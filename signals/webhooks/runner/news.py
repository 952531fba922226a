"""Which subscriptions have news: asked for all of them together, never for one after the other."""

import json

from django.db.models import Exists, OuterRef, Q

from desks.ids import CARD
from desks.models import Election
from events.kinds import EVERYONE
from events.models import Event, Head
from signals.webhooks.models import State, Subscription
from signals.webhooks.runner import statements

# With more news than this at once it is cheaper to ask who is behind.
MAX_NEWS = 5000


def head() -> int:
    """The newest position of the log."""
    return Head.objects.values_list("position", flat=True).get()


def with_news(after: int, until: int) -> list[int]:
    """The active subscriptions that the events between these positions may concern.

    ``after`` is exclusive. A subscription may be named that has no news, never the other way round:
    an election that opens a card's topic is an event of the desk's own topic. What waits after a
    failure need not be named: it is due at its time.
    """
    if until - after > MAX_NEWS:
        return behind()
    news = statements.fetch(statements.NEWS, after=after, until=until)
    topics, kinds = {topic for topic, _ in news if topic}, {kind for _, kind in news}
    found = _concerned(topics)
    return [pk for pk, wanted in found if not wanted or kinds.intersection(wanted)]


def _concerned(topics: set[str]) -> list[tuple[int, list[str]]]:
    """The active subscriptions that see one of these topics, with the kinds that they want."""
    if not any(topic == EVERYONE or topic.startswith(CARD) for topic in topics):
        rows = statements.fetch(statements.OF_DESKS, topics=topics)
        return [(pk, json.loads(kinds)) for pk, kinds in rows]
    active = Subscription.objects.filter(state=State.ACTIVE)
    if EVERYONE not in topics:
        cards = [topic for topic in topics if topic.startswith(CARD)]
        elections = Election.objects.filter(desk=OuterRef("desk"), card__in=cards)
        seen = Q(desk=None) | Q(desk__public_id__in=topics) | Q(Exists(elections))
        active = active.filter(seen)
    return list(active.values_list("pk", "kinds"))


def behind() -> list[int]:
    """The active subscriptions for which there may be events after their cursor."""
    newest = head()
    return list(
        Subscription.objects.filter(_may_have(newest), state=State.ACTIVE)
        .order_by("pk")
        .values_list("pk", flat=True)
    )


def advance_quiet(epoch: str, newest: int) -> int:
    """Moves the cursors of desks' subscriptions that saw nothing up to this position.

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
    """Whether an event up to this position may be in the view of a subscription, after its cursor.

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

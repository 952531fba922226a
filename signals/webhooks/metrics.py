"""What /metrics says of deliveries, read from the database: it is the same for every runner.

No label names a subscription, a desk or a host.
"""

from collections import Counter
from datetime import datetime

from django.db.models import Count, F, Min, OuterRef, Q, Subquery
from django.utils import timezone

from events.models import Event
from signals.webhooks.models import FAILING, SHOWN_STATES, State, Subscription


def subscriptions_by_state() -> dict[str, int]:
    """The number of subscriptions in each state that is shown."""
    failing = Q(state=State.ACTIVE, failures__gt=0)
    rows = Subscription.objects.order_by().values("state", is_failing=failing)
    found = Counter[str]()
    for row in rows.annotate(count=Count("pk")):
        found[FAILING if row["is_failing"] else row["state"]] += row["count"]
    return {str(state): found[str(state)] for state in SHOWN_STATES}


def lag_seconds() -> float:
    """The age of the oldest event that waits for a runner: not for an endpoint that fails.

    It looks at the desks' own events and, for the platform's subscriptions, at all. With 10,000
    subscriptions it takes 30 ms.
    """
    later = Event.objects.filter(position__gt=OuterRef("cursor_position")).order_by("position")
    own = later.filter(topic=OuterRef("desk__public_id")).order_by("topic", "position")
    rows = Subscription.objects.filter(state=State.ACTIVE, failures=0, kinds=[])
    desks = rows.filter(desk__isnull=False).annotate(first=Subquery(own.values("at")[:1]))
    platform = rows.filter(desk=None).annotate(first=Subquery(later.values("at")[:1]))
    oldest = [each.aggregate(oldest=Min(F("first")))["oldest"] for each in (desks, platform)]
    waiting: list[datetime] = [at for at in oldest if at is not None]
    return max(0.0, (timezone.now() - min(waiting)).total_seconds()) if waiting else 0.0

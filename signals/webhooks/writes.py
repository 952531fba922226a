"""What the actions share. Each function needs the caller's turn at the log."""

from typing import Any

from desks.models import Desk
from events import log
from events.http.refusals import Invalid, NotFound
from events.kinds import Kind
from signals.webhooks.models import MAX_OF_DESK, MAX_OF_PLATFORM, Subscription


def refuse_too_many(desk: Desk | None) -> None:
    """Raises ``Invalid`` if the desk, or the platform, has as many subscriptions as it may have."""
    most = MAX_OF_PLATFORM if desk is None else MAX_OF_DESK
    if Subscription.objects.of_owner(desk.pk if desk else None).count() >= most:
        whose = "The platform" if desk is None else "A desk"
        raise Invalid(f"{whose} has at most {most} webhooks. Remove one first.")


def current(subscription: Subscription) -> Subscription:
    """The row as it is under the log's lock. Raises ``NotFound`` if it was removed."""
    row = Subscription.objects.select_related("desk").filter(pk=subscription.pk).first()
    if row is None:
        raise NotFound
    return row


def update(row: Subscription, **changed: Any) -> None:
    """Changes these columns only: a runner may change others at the same time."""
    for name, value in changed.items():
        setattr(row, name, value)
    Subscription.objects.filter(pk=row.pk).update(**changed)


def append(turn: log.Turn, kind: Kind, subscription: Subscription, **more: Any) -> None:
    """Writes an event with the subscription's record after the change, and what else it tells."""
    data = {**subscription.as_event_data(), **more}
    turn.append(kind, topic=subscription.topic, data=data)

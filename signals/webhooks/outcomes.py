"""What a runner found out about a subscription.

``subscription`` is always the row as the runner leased it. Call ``verify`` and ``disable``, which
the log tells, with no transaction open: the log's lock comes first.
"""

from datetime import datetime

from events import log
from events.actors import SYSTEM
from events.kinds import Kind
from signals.webhooks.actions import append, update
from signals.webhooks.models import Reason, State, Subscription, SubscriptionQuerySet


def verify(*, subscription: Subscription) -> bool:
    """Notes that the URL answered a signed test. An unverified subscription becomes active.

    ``subscription`` is the row as the runner leased it. Returns False if it changed since.
    """
    with log.turn(actor=SYSTEM) as turn:
        row = _as_leased(subscription)
        if row is None:
            return False
        if row.is_verified:
            return True
        update(row, is_verified=True)
        if row.state == State.UNVERIFIED:
            update(row, state=State.ACTIVE, next_attempt_at=turn.at)
        append(turn, Kind.SUBSCRIPTION_VERIFIED, row)
    return True


def disable(*, subscription: Subscription, reason: Reason) -> bool:
    """Disables an active subscription: the service gives up until its owner resumes it.

    ``subscription`` is the row as the runner leased it. Returns False if it changed since.
    """
    with log.turn(actor=SYSTEM) as turn:
        row = _as_leased(subscription)
        if row is None or row.state != State.ACTIVE:
            return False
        update(row, state=State.DISABLED, reason=reason, next_attempt_at=None)
        append(turn, Kind.SUBSCRIPTION_DISABLED, row)
    return True


def note_lost_key(*, subscription: Subscription, now: datetime) -> None:
    """Notes since when the URL or a secret cannot be decrypted."""
    _of_lease(subscription).filter(key_lost_at=None).update(key_lost_at=now)


def note_found_key(*, subscription: Subscription) -> None:
    """Notes that everything can be decrypted again. A later loss is told anew."""
    _of_lease(subscription).update(key_lost_at=None, key_loss_told_at=None)


def _of_lease(subscription: Subscription) -> SubscriptionQuerySet:
    same = {"pk": subscription.pk, "lease_generation": subscription.lease_generation}
    return Subscription.objects.filter(**same)


def _as_leased(subscription: Subscription) -> Subscription | None:
    """The row, if it still has the lease and the URL that it was read with."""
    same = {name: getattr(subscription, name) for name in ("lease_generation", "revision")}
    rows = Subscription.objects.select_related("desk").filter(pk=subscription.pk, **same)
    return rows.first()

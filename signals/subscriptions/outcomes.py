"""What a runner found out about a subscription, and the log has to tell.

``subscription`` is always the row as the runner leased it. Call these with no transaction open: the
log's lock comes first.
"""

from events import log
from events.actors import SYSTEM
from events.kinds import Kind
from signals.models import Subscription
from signals.models.subscription import Reason, State
from signals.subscriptions.writes import append, update


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


def _as_leased(subscription: Subscription) -> Subscription | None:
    """The row, if it still has the lease and the URL that it was read with."""
    same = {name: getattr(subscription, name) for name in ("lease_generation", "revision")}
    rows = Subscription.objects.select_related("desk").filter(pk=subscription.pk, **same)
    return rows.first()

"""The kinds of events (contract, section 4, the events table)."""

from collections.abc import Callable
from typing import TypeVar

from django.db.models import TextChoices

Data = TypeVar("Data", bound=type)


class Kind(TextChoices):
    """The stored and published name of each kind of event."""

    DESK_CREATED = "desk.created"
    DESK_CONNECTED = "desk.connected"
    DESK_DISCONNECTED = "desk.disconnected"
    DESK_DEACTIVATED = "desk.deactivated"
    DESK_REACTIVATED = "desk.reactivated"
    DESK_CLOSED = "desk.closed"
    CARD_PUBLISHED = "card.published"
    CARD_RETIRED = "card.retired"
    ELECTION_MADE = "election.made"
    ELECTION_WITHDRAWN = "election.withdrawn"
    AUTOMATION_CREATED = "automation.created"
    AUTOMATION_CHANGED = "automation.changed"
    AUTOMATION_QUIET = "automation.quiet"
    AUTOMATION_HEARD = "automation.heard"
    AUTOMATION_REMOVED = "automation.removed"
    TOKEN_MINTED = "token.minted"
    TOKEN_REVOKED = "token.revoked"
    SECRET_GENERATED = "secret.generated"
    SECRET_ENDED = "secret.ended"
    SIGNAL_FILLED = "signal.filled"
    SIGNAL_DRY_RUN = "signal.dry_run"
    SIGNAL_RECORDED = "signal.recorded"
    SIGNAL_REFUSED = "signal.refused"
    SUBSCRIPTION_CREATED = "subscription.created"
    SUBSCRIPTION_VERIFIED = "subscription.verified"
    SUBSCRIPTION_CHANGED = "subscription.changed"
    SUBSCRIPTION_SECRET_REPLACED = "subscription.secret_replaced"
    SUBSCRIPTION_PAUSED = "subscription.paused"
    SUBSCRIPTION_RESUMED = "subscription.resumed"
    SUBSCRIPTION_REWOUND = "subscription.rewound"
    SUBSCRIPTION_DISABLED = "subscription.disabled"
    SUBSCRIPTION_REMOVED = "subscription.removed"


# An event's topic says who sees it: a desk's id (usr_…), a card's id (card_…), or one of these.
EVERYONE = "all"  # every desk
PLATFORM = None  # only the platform

# The code of the one ``signal.refused`` that stands for all refusals that are not recorded.
SUPPRESSED = "refusals_suppressed"

# The ``TypedDict`` that describes ``data``, by kind of event. It stands where the event is made.
DATA: dict[str, type] = {}


def data_of(*kinds: Kind) -> Callable[[Data], Data]:
    """Describes the ``data`` of these kinds of event. Decorates a ``TypedDict``."""

    def describe(data: Data) -> Data:
        DATA.update(dict.fromkeys(kinds, data))
        return data

    return describe

"""The kinds of events (contract, section 4, the events table)."""

from collections.abc import Callable
from typing import TypeVar

from django.db.models import TextChoices

Data = TypeVar("Data", bound=type)


class Kind(TextChoices):
    """Each kind of event: its stored and published name, and what it is called on pages.

    On pages a bot is a bot, and a subscription a webhook.
    """

    DESK_CREATED = "desk.created", "Desk opened"
    DESK_CONNECTED = "desk.connected", "Desk connected"
    DESK_DISCONNECTED = "desk.disconnected", "Desk disconnected"
    DESK_DEACTIVATED = "desk.deactivated", "Desk deactivated"
    DESK_REACTIVATED = "desk.reactivated", "Desk reactivated"
    DESK_CLOSED = "desk.closed", "Desk closed"
    CARD_PUBLISHED = "card.published", "Card published"
    CARD_RETIRED = "card.retired", "Card retired"
    ELECTION_MADE = "election.made", "Election made"
    ELECTION_WITHDRAWN = "election.withdrawn", "Election withdrawn"
    AUTOMATION_CREATED = "automation.created", "Bot created"
    AUTOMATION_CHANGED = "automation.changed", "Bot's alarm changed"
    AUTOMATION_QUIET = "automation.quiet", "Bot silent"
    AUTOMATION_HEARD = "automation.heard", "Bot sends again"
    AUTOMATION_REMOVED = "automation.removed", "Bot removed"
    TOKEN_MINTED = "token.minted", "Token minted"
    TOKEN_REVOKED = "token.revoked", "Token revoked"
    SECRET_GENERATED = "secret.generated", "Signing secret generated"
    SECRET_ENDED = "secret.ended", "Signing secret ended"
    SIGNAL_FILLED = "signal.filled", "Signal filled"
    SIGNAL_DRY_RUN = "signal.dry_run", "Signal dry run"
    SIGNAL_RECORDED = "signal.recorded", "Signal recorded"
    SIGNAL_REFUSED = "signal.refused", "Signal refused"
    SUBSCRIPTION_CREATED = "subscription.created", "Webhook added"
    SUBSCRIPTION_VERIFIED = "subscription.verified", "Webhook verified"
    SUBSCRIPTION_CHANGED = "subscription.changed", "Webhook changed"
    SUBSCRIPTION_SECRET_REPLACED = "subscription.secret_replaced", "Webhook secret replaced"
    SUBSCRIPTION_PAUSED = "subscription.paused", "Webhook paused"
    SUBSCRIPTION_RESUMED = "subscription.resumed", "Webhook resumed"
    SUBSCRIPTION_REWOUND = "subscription.rewound", "Webhook moved"
    SUBSCRIPTION_FAILING = "subscription.failing", "Webhook failing"
    SUBSCRIPTION_WORKING = "subscription.working", "Webhook working again"
    SUBSCRIPTION_DISABLED = "subscription.disabled", "Webhook disabled"
    SUBSCRIPTION_REMOVED = "subscription.removed", "Webhook removed"


LABELS: dict[str, str] = dict(Kind.choices)


def label_of(kind: str) -> str:
    """What pages call a kind of event: its label, or its name if only a later release knows it."""
    return LABELS.get(kind, kind)


def group_of(kind: str) -> str:
    """The name of the group of kinds that begin as this one does, such as ``signal.*``."""
    return f"{kind.partition('.')[0]}.*"


# The groups, with their kinds in this release.
GROUPS: dict[str, list[str]] = {
    group: [kind.value for kind in Kind if group_of(kind) == group]
    for group in dict.fromkeys(map(group_of, Kind.values))
}

# An event's topic says who sees it: a desk's id (usr_…), a card's id (card_…), or one of these.
EVERYONE = "all"  # every desk
PLATFORM = None  # only the platform

# The code of the one ``signal.refused`` that stands for all refusals that are not recorded.
SUPPRESSED = "refusals_suppressed"

# The ``TypedDict`` that describes ``data``, by kind of event. It stands in the package that writes
# the event, such as ``desks.event_data``.
DATA: dict[str, type] = {}


def data_of(*kinds: Kind) -> Callable[[Data], Data]:
    """Describes the ``data`` of these kinds of event. Decorates a ``TypedDict``."""

    def describe(data: Data) -> Data:
        DATA.update(dict.fromkeys(kinds, data))
        return data

    return describe

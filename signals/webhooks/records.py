"""A subscription as its owner sees it, in the API and on pages (contract, section 4)."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Annotated, TypedDict

from desks.ids import SubscriptionId, UserId
from events.feed import Query, count_ahead, read_head, read_page
from events.http.cursors import log_cursor
from events.json_schema import Count, DateTime, Example, JsonSchema, one_of
from events.kinds import Kind
from events.times import to_rfc3339
from signals.webhooks.models import (
    SHOWN_STATES,
    Kinds,
    ReasonName,
    State,
    Subscription,
    SubscriptionSecret,
    SubscriptionSecretRecord,
)

MAX_LAG = 1000  # counting stops here: the lag is this or more
EXAMPLE_CURSOR = log_cursor("4f1c2a90", 12)


class SubscriptionRecord(TypedDict):
    """A webhook subscription: a cursor of the log with a URL."""

    id: SubscriptionId
    url: Annotated[str, "The host only: a URL can be a secret.", Example("hooks.example.com/…")]
    kinds: Annotated[Kinds, Example([Kind.SIGNAL_FILLED.value, Kind.SIGNAL_REFUSED.value])]
    userId: Annotated[UserId | None, "The desk that owns it. Null for the platform's."]
    state: Annotated[str, one_of(SHOWN_STATES), Example(State.ACTIVE.value)]
    reason: Annotated[ReasonName | None, "Why it was disabled."]
    cursor: Annotated[
        str,
        "The last position that was delivered, as a cursor of the feed.",
        Example(EXAMPLE_CURSOR),
    ]
    lag: Annotated[
        Annotated[int, JsonSchema(minimum=0, maximum=MAX_LAG)] | None,
        f"Events that are not delivered yet, counted to {MAX_LAG:,}. Null if the cursor is lost.",
        Example(0),
    ]
    failures: Annotated[Count, "Failed attempts in a row.", Example(0)]
    failingSince: DateTime | None
    nextAttemptAt: DateTime | None
    testRequestedAt: Annotated[DateTime | None, "A test that has not been sent yet."]
    lastDeliveredAt: DateTime | None
    lastStatus: Annotated[Count | None, "The HTTP status of the latest attempt.", Example(204)]
    secrets: Annotated[list[SubscriptionSecretRecord], "The newest first; at most two."]
    createdAt: DateTime


def records(subscriptions: Sequence[Subscription], now: datetime) -> list[SubscriptionRecord]:
    """The records of these subscriptions, whose ``desk`` is loaded."""
    live = SubscriptionSecret.objects.live(now).filter(subscription__in=subscriptions)
    secrets: dict[int, list[SubscriptionSecretRecord]] = {}
    for secret in live:
        secrets.setdefault(secret.subscription_id, []).append(secret.as_event_data())
    epoch = read_head().epoch
    return [_record(one, secrets.get(one.pk, []), epoch) for one in subscriptions]


def lag_of(subscription: Subscription) -> int:
    """The number of events of its view that are not delivered yet, counted to ``MAX_LAG``."""
    return count_ahead(
        subscription.cursor_position, subscription.kinds, subscription.visibility, MAX_LAG
    )


def next_position(subscription: Subscription) -> int | None:
    """The position of the event that is delivered next, or None if none waits."""
    after: int | None = subscription.cursor_position
    while after is not None:
        query = Query(after=after, kinds=subscription.kinds, limit=1)
        page = read_page(query, subscription.visibility)
        if page.events:
            return page.events[0].position
        after = page.examined if page.more else None
    return None


def _record(
    subscription: Subscription, secrets: list[SubscriptionSecretRecord], epoch: str
) -> SubscriptionRecord:
    is_lost = subscription.cursor_epoch != epoch
    return {
        "id": subscription.public_id,
        "url": subscription.masked_url,
        "kinds": subscription.kinds or None,
        "userId": subscription.topic,
        "state": subscription.shown_state,
        "reason": subscription.reason,
        "cursor": subscription.cursor,
        "lag": None if is_lost else lag_of(subscription),
        "failures": subscription.failures,
        "failingSince": to_rfc3339(subscription.failing_since),
        "nextAttemptAt": to_rfc3339(
            subscription.next_attempt_at if subscription.failures else None
        ),
        "testRequestedAt": to_rfc3339(subscription.test_requested_at),
        "lastDeliveredAt": to_rfc3339(subscription.last_delivered_at),
        "lastStatus": subscription.last_status,
        "secrets": secrets,
        "createdAt": to_rfc3339(subscription.created_at),
    }


# --- Kinds of events, in groups that people choose from -------------------------------------------


def _of(*prefixes: str) -> tuple[str, ...]:
    return tuple(kind.value for kind in Kind if kind.startswith(prefixes))


# The name of each group in a form, its label, and its kinds. Each kind is in exactly one.
GROUPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "fills": ("Fills", (Kind.SIGNAL_FILLED.value,)),
    "refusals": ("Refusals", (Kind.SIGNAL_REFUSED.value,)),
    "unfilled": ("Dry runs and drafts", (Kind.SIGNAL_DRY_RUN.value, Kind.SIGNAL_RECORDED.value)),
    "bots": ("Bots: created, removed, silent, heard again", _of("automation.")),
    "cards": ("Cards and elections", _of("card.", "election.")),
    "desk": ("Desk: connected, disconnected, closed", _of("desk.")),
    "credentials": ("Tokens and signing secrets", _of("token.", "secret.")),
    "webhooks": ("Webhooks", _of("subscription.")),
}


def kinds_of(groups: Collection[str]) -> list[str]:
    """The kinds of these groups. All groups or none mean every kind: an empty list."""
    if len(groups) in (0, len(GROUPS)):
        return []
    return [kind for name, (_, kinds) in GROUPS.items() if name in groups for kind in kinds]


def groups_of(kinds: Sequence[str]) -> list[str]:
    """The groups whose kinds are all among these."""
    return [name for name, (_, of_group) in GROUPS.items() if {*of_group} <= {*kinds}]


def in_words(kinds: Sequence[str]) -> list[str]:
    """What a subscription with these kinds sends: labels of groups, then what is in none."""
    groups = groups_of(kinds)
    grouped = {kind for name in groups for kind in GROUPS[name][1]}
    return [*(GROUPS[name][0] for name in groups), *(k for k in kinds if k not in grouped)]

"""What answers and events say of webhooks (contract, section 4, subscriptions).

The API and the kinds of events call a webhook a subscription.
"""

from collections.abc import Sequence
from typing import Annotated, NotRequired, TypedDict

from django.utils import timezone

from desks.ids import BotId, SubscriptionId, UserId
from events.feed import EventId, read_end
from events.http.cursors import log_cursor
from events.json_schema import Count, DateTime, Example, JsonSchema, one_of
from events.kinds import GROUPS, Kind, data_of
from events.times import to_rfc3339
from signals.outbound.answers import Fault
from signals.webhooks.messages import TEST
from signals.webhooks.models import (
    MAX_LAG,
    SHOWN_STATES,
    DeliveryAttempt,
    DisabledReason,
    State,
    Subscription,
    SubscriptionSecret,
    without_groups,
)
from tokens.models.secret import SecretId

EXAMPLE_CURSOR = log_cursor("4f1c2a90", 12)

KINDS_AND_GROUPS = [*Kind.values, *GROUPS]
KINDS_HELP = (
    "The kinds that are delivered. A group, such as `signal.*`, stands for all kinds that begin "
    "so, and null for all kinds; both include those of later versions."
)
Kinds = Annotated[
    Annotated[list[Annotated[str, one_of(KINDS_AND_GROUPS)]], JsonSchema(minItems=1)] | None,
    KINDS_HELP,
]
ReasonName = Annotated[str, one_of(DisabledReason)]


class SubscriptionSecretRecord(TypedDict):
    """A secret that signs deliveries. It never includes the text."""

    id: SecretId
    hint: Annotated[str, "Its prefix and its last four characters.", Example("whsec_…7dQz")]
    createdAt: DateTime
    endsAt: Annotated[DateTime | None, "When it stops signing. Null for the current one."]


def secret_record(secret: SubscriptionSecret) -> SubscriptionSecretRecord:
    """The record that events and answers contain. It never includes the secret's text."""
    return {
        "id": secret.public_id,
        "hint": secret.hint,
        "createdAt": to_rfc3339(secret.created_at),
        "endsAt": to_rfc3339(secret.ends_at),
    }


# --- A webhook ------------------------------------------------------------------------------------


class LastTest(TypedDict):
    """What became of a test."""

    at: DateTime
    status: Annotated[Count | None, "The HTTP status. Null without an answer.", Example(200)]
    error: Annotated[
        Annotated[str, one_of(Fault.values)] | None,
        "What went wrong, if no status says it. `unproven`: answered 2xx, but without the proof.",
    ]


class SubscriptionRecord(TypedDict):
    """A webhook subscription: a cursor of the log with a URL."""

    id: SubscriptionId
    name: Annotated[str | None, "The name that its owner chose.", Example("Order book")]
    url: Annotated[str, "The host. The rest can be a secret.", Example("hooks.example.com/…")]
    kinds: Annotated[Kinds, Example([Kind.SIGNAL_FILLED.value, Kind.SIGNAL_REFUSED.value])]
    botId: Annotated[
        BotId | None, "Only events of this bot are delivered. Null: of all, and those of none."
    ]
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
        f"Events that are not delivered yet, counted to {MAX_LAG:,}. Null if the cursor is lost, "
        "or if it would take too long to count them.",
        Example(0),
    ]
    failures: Annotated[
        Count, "Failed attempts in a row; of an unverified one, to send its test.", Example(0)
    ]
    failingSince: DateTime | None
    nextAttemptAt: DateTime | None
    testRequestedAt: Annotated[
        DateTime | None, "A test that has not been sent yet, or that is tried again."
    ]
    lastTest: Annotated[LastTest | None, "Null before the first test of its URL."]
    resends: Annotated[
        list[EventId], "The events that wait to be sent again by themselves.", Example([])
    ]
    lastDeliveredAt: DateTime | None
    lastStatus: Annotated[
        Count | None, "The HTTP status of the latest attempt to deliver an event.", Example(204)
    ]
    secrets: Annotated[list[SubscriptionSecretRecord], "The newest first; at most two."]
    createdAt: DateTime


def last_test_of(webhook: Subscription) -> LastTest | None:
    """What became of the latest test of its URL; None before the first."""
    if webhook.last_test_at is None:
        return None
    return {
        "at": to_rfc3339(webhook.last_test_at),
        "status": webhook.last_test_status,
        "error": webhook.last_test_error or None,
    }


def record_of(webhook: Subscription) -> SubscriptionRecord:
    """The record that its owner sees."""
    head, event = read_end(webhook.cursor_position)
    is_lost = webhook.cursor_epoch != head.epoch
    return {
        "id": webhook.public_id,
        "name": webhook.name or None,
        "url": f"{webhook.host}/…",
        "kinds": without_groups(webhook.kinds) or None,
        "botId": webhook.bot or None,
        "userId": webhook.topic,
        "state": webhook.shown_state,
        "reason": webhook.reason,
        # As the feed gives and takes it.
        "cursor": log_cursor(
            webhook.cursor_epoch, webhook.cursor_position, None if is_lost else event
        ),
        "lag": None if is_lost else webhook.lag,
        "failures": webhook.failures,
        "failingSince": to_rfc3339(webhook.failing_since),
        "nextAttemptAt": to_rfc3339(webhook.next_attempt_at if webhook.failures else None),
        "testRequestedAt": to_rfc3339(webhook.test_requested_at),
        "lastTest": last_test_of(webhook),
        "resends": [f"evt_{position}" for position in webhook.resends or ()],
        "lastDeliveredAt": to_rfc3339(webhook.last_delivered_at),
        "lastStatus": webhook.last_status,
        "secrets": [secret_record(secret) for secret in webhook.secrets.live(timezone.now())],
        "createdAt": to_rfc3339(webhook.created_at),
    }


# --- An event of a webhook ------------------------------------------------------------------------

CHANGEABLE = ("name", "kinds", "bot", "url")  # in this order in events


@data_of(*(kind for kind in Kind if kind.startswith("subscription.")))
class SubscriptionData(TypedDict):
    """Data of ``subscription.…`` events: the record after the change, without its URL."""

    id: SubscriptionId
    name: NotRequired[Annotated[str | None, "Not in events of releases before November 2026."]]
    bot: NotRequired[
        Annotated[BotId | None, "The one whose events it gets; null for no such limit."]
    ]
    host: NotRequired[Annotated[str, "In events of releases before November 2026 only."]]
    kinds: Kinds
    state: Annotated[str, one_of(State.values)]
    reason: ReasonName | None
    changed: NotRequired[
        Annotated[list[Annotated[str, one_of(CHANGEABLE)]], "Of subscription.changed."]
    ]
    position: NotRequired[
        Annotated[
            Count, "Of subscription.rewound: the new cursor, or the last position that was skipped."
        ]
    ]
    skipped: NotRequired[
        Annotated[
            Count | None,
            "Of a subscription.rewound that skips what waited: how many events. Null for more than "
            f"{MAX_LAG:,}. Not in events of releases before November 2026, nor if they were not "
            "counted.",
        ]
    ]
    since: NotRequired[Annotated[DateTime, "Of subscription.failing: the first failure."]]
    secret: NotRequired[
        Annotated[
            SubscriptionSecretRecord,
            "Of subscription.created and subscription.secret_replaced.",
        ]
    ]
    previousEndsAt: NotRequired[
        Annotated[DateTime, "Of subscription.secret_replaced: when the old one ends."]
    ]


def event_data(webhook: Subscription) -> SubscriptionData:
    """The data of ``subscription.…`` events. The log is for good, so it never names the URL."""
    return {
        "id": webhook.public_id,
        "name": webhook.name or None,
        "kinds": without_groups(webhook.kinds) or None,
        "bot": webhook.bot or None,  # as botId it would be an event of the bot
        "state": webhook.state,
        "reason": webhook.reason,
    }


# --- Attempts to send -----------------------------------------------------------------------------


class AttemptRecord(TypedDict):
    """An attempt to send a message to the URL of a subscription."""

    at: DateTime
    kind: Annotated[
        Annotated[str, one_of([*Kind, TEST])] | None,
        "What was sent: the event's kind, or a test. Null if the log was restored and does not "
        "have the event any more.",
        Example(Kind.SIGNAL_FILLED.value),
    ]
    event: Annotated[EventId | None, "The event. Null for a test.", Example("evt_8")]
    status: Annotated[Count | None, "The HTTP status. Null without an answer.", Example(503)]
    milliseconds: Annotated[Count, "How long it took.", Example(41)]
    error: Annotated[
        Annotated[str, one_of(Fault)] | None,
        "What went wrong, if no status says it. "
        + " ".join(f"`{fault.value}`: {fault.label}" for fault in Fault),
    ]


def attempt_records(
    webhook: Subscription, attempts: Sequence[DeliveryAttempt]
) -> list[AttemptRecord]:
    """The records that the owner sees. They hold nothing of the answers, which can hold secrets."""
    kinds = {position: event.kind for position, event in webhook.events_of(attempts).items()}
    return [
        {
            "at": to_rfc3339(one.at),
            "kind": TEST if one.position is None else kinds.get(one.position),
            "event": one.event,
            "status": one.status,
            "milliseconds": one.milliseconds,
            "error": one.error or None,
        }
        for one in attempts
    ]

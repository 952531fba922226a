"""The bodies and answers of webhook subscriptions, and their operations in the OpenAPI document.

A body is described by the serializer that reads it (contract, section 4, subscriptions).
"""

from datetime import timedelta
from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema_field
from rest_framework import serializers

from desks.api.schemas import EXAMPLE_TIME, EXAMPLE_USER_ID
from desks.ids import SUBSCRIPTION, SUBSCRIPTION_ID, USER_ID
from events.http import refusals
from events.http.cursors import log_cursor
from events.http.json_schema import COUNT, DATE_TIME, STRING, one_of, pattern
from events.http.parameters import (
    MAX_TEXT_LENGTH,
    PageParameters,
    StrictSerializer,
    StrictTextField,
)
from events.http.schemas import JSON_BODY, Field, Schema, operation
from events.kinds import Kind
from signals.outbound.addresses import MAX_URL_LENGTH
from signals.webhooks.models import MAX_OF_DESK, MAX_OF_PLATFORM, SHOWN_STATES, Reason, State
from signals.webhooks.records import MAX_LAG
from tokens.actions import MAX_OVERLAP
from tokens.api.schemas import SECRET_ID
from tokens.crypto import formats

KINDS = {"type": "array", "items": one_of(Kind.values), "minItems": 1}
SECRET = pattern(f"{formats.WEBHOOK_SECRET}[0-9A-Za-z+/]{{{formats.WEBHOOK_CHARACTERS}}}")
OVERLAP = {"type": "integer", "minimum": 0, "maximum": int(MAX_OVERLAP.total_seconds())}
ALL_KINDS = "The kinds that are delivered. Null for all, those of later versions included."


# --- Bodies ---------------------------------------------------------------------------------------


class StrictBooleanField(serializers.BooleanField):
    """JSON's true or false. The framework also accepts numbers and words."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input="…")
        return data


@extend_schema_field(OVERLAP)
class OverlapField(serializers.Field[timedelta, Any, Any, Any]):
    """A whole number of seconds, as a JSON number."""

    default_error_messages = {"invalid": "Send a whole number of seconds."}

    def to_internal_value(self, data: Any) -> timedelta:
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("invalid")
        return timedelta(seconds=min(max(data, -1), 2 * MAX_OVERLAP.total_seconds()))


@extend_schema_field(KINDS)
class KindsField(serializers.ListField):
    """Kinds of events; None for all of them, those of later versions included."""

    child = serializers.ChoiceField(Kind.choices)

    def __init__(self) -> None:
        super().__init__(
            required=False,
            allow_null=True,
            allow_empty=False,
            max_length=len(Kind),
            help_text=ALL_KINDS,
        )


def in_order(kinds: list[str] | None) -> list[str]:
    """The kinds as they are stored: each once, in the order of the contract. Empty for all."""
    return [kind.value for kind in Kind if kind in (kinds or ())]


class NewSubscription(StrictSerializer):
    """A new subscription."""

    url = StrictTextField(
        max_length=MAX_URL_LENGTH,
        trim_whitespace=False,
        help_text="https, port 443 or 8443, without credentials and fragment.",
    )
    kinds = KindsField()


class SubscriptionChange(StrictSerializer):
    """What changes: at least one of these."""

    url = StrictTextField(
        max_length=MAX_URL_LENGTH,
        trim_whitespace=False,
        required=False,
        help_text="It must answer a test before it gets deliveries.",
    )
    kinds = KindsField()
    paused = StrictBooleanField(required=False, help_text="True pauses, false resumes.")

    def validate(self, data: dict[str, Any]) -> dict[str, Any]:
        if not data:
            raise serializers.ValidationError({"url": "Send url, kinds or paused."})
        return data


class SecretReplacement(StrictSerializer):
    """How long the old secret signs beside the new one."""

    overlap = OverlapField(required=False, help_text="In seconds; at most 7 days. 0 by default.")


class Rewinding(StrictSerializer):
    """The cursor of the feed after which deliveries continue."""

    after = StrictTextField(max_length=MAX_TEXT_LENGTH)


class Empty(Schema):
    """Nothing."""


# --- Answers and events ---------------------------------------------------------------------------


class SubscriptionSecretRecord(Schema):
    """A secret that signs deliveries. It never includes the text."""

    id = Field(SECRET_ID)
    hint = Field(STRING, "Its prefix and its last four characters.")
    createdAt = Field(DATE_TIME)
    endsAt = Field(DATE_TIME, "When it stops signing. Null for the current one.", allow_null=True)


class SubscriptionRecord(Schema):
    """A webhook subscription: a cursor of the log with a URL."""

    id = Field(SUBSCRIPTION_ID)
    url = Field(STRING, "The host only: a URL can be a secret.")
    kinds = Field(KINDS, ALL_KINDS, allow_null=True)
    userId = Field(USER_ID, "The desk that owns it. Null for the platform's.", allow_null=True)
    state = Field(one_of(SHOWN_STATES))
    reason = Field(one_of(Reason), "Why it was disabled.", allow_null=True)
    cursor = Field(STRING, "The last position that was delivered, as a cursor of the feed.")
    lag = Field(
        {"type": "integer", "minimum": 0, "maximum": MAX_LAG},
        f"Events that are not delivered yet, counted to {MAX_LAG:,}. Null if the cursor is lost.",
        allow_null=True,
    )
    failures = Field(COUNT, "Failed attempts in a row.")
    failingSince = nextAttemptAt = Field(DATE_TIME, allow_null=True)
    testRequestedAt = Field(DATE_TIME, "A test that has not been sent yet.", allow_null=True)
    lastDeliveredAt = Field(DATE_TIME, allow_null=True)
    lastStatus = Field(COUNT, "The HTTP status of the latest attempt.", allow_null=True)
    secrets = SubscriptionSecretRecord(many=True, help_text="The newest first; at most two.")
    createdAt = Field(DATE_TIME)


class SubscriptionAndSecret(SubscriptionRecord):
    """The record and the new secret."""

    secret = Field(SECRET, "It is shown only once.")


class SubscriptionPage(Schema):
    """A page of subscriptions."""

    subscriptions = SubscriptionRecord(many=True)
    next = Field(STRING, "The after of the next page. Null on the last page.", allow_null=True)


class SubscriptionData(Schema):
    """Data of ``subscription.…`` events: the record after the change, without its URL."""

    id = Field(SUBSCRIPTION_ID)
    host = Field(STRING, "In events of releases before November 2026 only.", required=False)
    kinds = Field(KINDS, ALL_KINDS, allow_null=True)
    state = Field(one_of(State.values))
    reason = Field(one_of(Reason), allow_null=True)
    changed = Field(
        {"type": "array", "items": one_of(["kinds", "url"])},
        "Of subscription.changed.",
        required=False,
    )
    position = Field(COUNT, "Of subscription.rewound: the new cursor.", required=False)
    secret = SubscriptionSecretRecord(
        required=False, help_text="Of subscription.created and subscription.secret_replaced."
    )
    previousEndsAt = Field(
        DATE_TIME, "Of subscription.secret_replaced: when the old one ends.", required=False
    )


# --- Operations -----------------------------------------------------------------------------------

TAG = "Subscriptions"
EXAMPLE_ID = f"{SUBSCRIPTION}6Hn1tKc9WzR4vQy8BsLmD3"
EXAMPLE_CURSOR = log_cursor("4f1c2a90", 12)

RECORD = {
    "id": EXAMPLE_ID,
    "url": "hooks.example.com/…",
    "kinds": [Kind.SIGNAL_FILLED.value, Kind.SIGNAL_REFUSED.value],
    "userId": EXAMPLE_USER_ID,
    "state": State.ACTIVE.value,
    "reason": None,
    "cursor": EXAMPLE_CURSOR,
    "lag": 0,
    "failures": 0,
    "failingSince": None,
    "nextAttemptAt": None,
    "testRequestedAt": None,
    "lastDeliveredAt": EXAMPLE_TIME,
    "lastStatus": 204,
    "secrets": [
        {
            "id": "sec_2Wd7xNb5JqT8cLs3RgYvH6",
            "hint": f"{formats.WEBHOOK_SECRET}…7dQz",
            "createdAt": EXAMPLE_TIME,
            "endsAt": None,
        }
    ],
    "createdAt": EXAMPLE_TIME,
}
# Shown in no other place than the example of the answer that shows a secret once.
SHOWN = {**RECORD, "secret": f"{formats.WEBHOOK_SECRET}{'A' * formats.WEBHOOK_CHARACTERS}"}
TO_CHANGE = (
    "Requires a session that signed in or re-authenticated within the last 15 minutes. Staff "
    "change the platform's subscriptions."
)
WITH_BODY = [
    *JSON_BODY,
    refusals.SignInRequired,
    refusals.NotAllowed,
    refusals.RateLimited,
    refusals.ExchangeSecret,
    refusals.Invalid,
]
in_path = OpenApiParameter(
    "subscription_id", SUBSCRIPTION_ID, "path", description="The subscription."
)

list_subscriptions = operation(
    "listSubscriptions",
    "List webhook subscriptions",
    "A desk token and a signed-in customer list the desk's own, a platform token and staff the "
    "platform's. A token needs the scope read.",
    tag=TAG,
    response=SubscriptionPage,
    example={"subscriptions": [RECORD], "next": None},
    parameters=[PageParameters],
    refusals=[refusals.Invalid, refusals.NotAllowed],
)

create_subscription = operation(
    "createSubscription",
    "Add a webhook subscription",
    f"{TO_CHANGE} At most {MAX_OF_DESK} for each desk and {MAX_OF_PLATFORM} for the platform. "
    "Deliveries begin with the next event, once the URL has answered a signed test with 2xx and "
    "the proof that it knows the secret. The secret is shown only once.",
    tag=TAG,
    response=SubscriptionAndSecret,
    status=201,
    body=NewSubscription,
    bodies=[
        OpenApiExample(
            "Fills and refusals",
            {"url": "https://hooks.example.com/signals", "kinds": RECORD["kinds"]},
            request_only=True,
        )
    ],
    refusals=WITH_BODY,
)

read_subscription = operation(
    "readSubscription",
    "Read a webhook subscription",
    "State, cursor, lag and the latest outcome.",
    tag=TAG,
    response=SubscriptionRecord,
    example=RECORD,
    parameters=[in_path],
    refusals=[refusals.NotFound, refusals.NotAllowed],
)

change_subscription = operation(
    "changeSubscription",
    "Change a webhook subscription",
    f"{TO_CHANGE} A new URL must answer a test first. Resuming continues at the cursor: nothing is "
    "lost, however long it was.",
    tag=TAG,
    response=SubscriptionRecord,
    example=RECORD,
    body=SubscriptionChange,
    bodies=[OpenApiExample("Pause", {"paused": True}, request_only=True)],
    parameters=[in_path],
    refusals=[*WITH_BODY, refusals.NotFound, refusals.CursorLost],
)

remove_subscription = operation(
    "removeSubscription",
    "Remove a webhook subscription",
    f"{TO_CHANGE} Its URL, secrets and attempts are deleted.",
    tag=TAG,
    response=Empty,
    status=204,
    parameters=[in_path],
    refusals=[refusals.SignInRequired, refusals.NotFound, refusals.NotAllowed],
)

replace_secret = operation(
    "replaceSubscriptionSecret",
    "Replace the secret",
    f"{TO_CHANGE} With an overlap deliveries carry both signatures until the old secret ends. One "
    "that is already in an overlap ends now. The new secret is shown only once.",
    tag=TAG,
    response=SubscriptionAndSecret,
    status=201,
    body=SecretReplacement,
    bodies=[OpenApiExample("Over a day", {"overlap": 86400}, request_only=True)],
    parameters=[in_path],
    refusals=[*WITH_BODY, refusals.NotFound],
)

test_subscription = operation(
    "testSubscription",
    "Ask for a test",
    f"{TO_CHANGE} A signed `subscription.test` is sent after this answer. Read the subscription "
    "until `testRequestedAt` is null. It contains a `challenge`. The endpoint answers 2xx with "
    '`{"challenge": …}`: the HMAC-SHA256 of the challenge in hex, with the key of the signatures.',
    tag=TAG,
    response=SubscriptionRecord,
    status=202,
    example=RECORD,
    body=Empty,
    parameters=[in_path],
    refusals=[*WITH_BODY, refusals.NotFound],
)

rewind_subscription = operation(
    "rewindSubscription",
    "Move the cursor",
    f"{TO_CHANGE} `after` is a cursor of the feed: an earlier one sends everything after it again, "
    "a later one skips. It takes effect when the delivery in flight has ended.",
    tag=TAG,
    response=SubscriptionRecord,
    example=RECORD,
    body=Rewinding,
    bodies=[OpenApiExample("Again", {"after": EXAMPLE_CURSOR}, request_only=True)],
    parameters=[in_path],
    refusals=[*WITH_BODY, refusals.NotFound, refusals.CursorLost],
)

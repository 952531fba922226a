"""Webhook subscriptions in the OpenAPI document (contract, section 4, subscriptions)."""

from drf_spectacular.utils import OpenApiExample, OpenApiParameter

from desks.api.schemas import EXAMPLE_TIME, EXAMPLE_USER_ID
from desks.ids import SUBSCRIPTION, SUBSCRIPTION_ID
from events.http import refusals
from events.http.cursors import log_cursor
from events.http.parameters import PageParameters
from events.http.schemas import JSON_BODY, operation
from events.kinds import Kind
from signals.webhooks.api.records import (
    Empty,
    NewSubscription,
    SecretReplacement,
    SubscriptionAndSecret,
    SubscriptionChange,
    SubscriptionPage,
    SubscriptionRecord,
)
from signals.webhooks.api.serializers import Rewinding
from signals.webhooks.models import MAX_OF_DESK, MAX_OF_PLATFORM, State
from tokens.crypto import formats

TAG = "Subscriptions"
EXAMPLE_ID = f"{SUBSCRIPTION}6Hn1tKc9WzR4vQy8BsLmD3"
EXAMPLE_CURSOR = log_cursor("4f1c2a90", 12)

# --- The operations ------------------------------------------------------------------------------

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

"""The OpenAPI schemas of webhook subscriptions in responses, bodies and events."""

from desks.ids import SUBSCRIPTION_ID, USER_ID
from events.http.json_schema import BOOLEAN, COUNT, DATE_TIME, STRING, one_of, pattern
from events.http.schemas import Field, Schema
from events.kinds import Kind
from signals.outbound.addresses import MAX_URL_LENGTH
from signals.webhooks.models import SHOWN_STATES, Reason, State
from signals.webhooks.records import MAX_LAG
from tokens.actions import MAX_OVERLAP
from tokens.api.schemas import SECRET_ID
from tokens.crypto import formats

KINDS = {"type": "array", "items": one_of(Kind.values), "minItems": 1}
URL = {"type": "string", "maxLength": MAX_URL_LENGTH}
SECRET = pattern(f"{formats.WEBHOOK_SECRET}[0-9A-Za-z+/]{{{formats.WEBHOOK_CHARACTERS}}}")
OVERLAP = {"type": "integer", "minimum": 0, "maximum": int(MAX_OVERLAP.total_seconds())}
ALL_KINDS = "The kinds that are delivered. Null for all, those of later versions included."


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


class NewSubscription(Schema):
    """A new subscription."""

    url = Field(URL, "https, port 443 or 8443, without credentials and fragment.")
    kinds = Field(KINDS, ALL_KINDS, allow_null=True, required=False)


class SubscriptionChange(Schema):
    """What changes: at least one of these."""

    url = Field(URL, "It must answer a test before it gets deliveries.", required=False)
    kinds = Field(KINDS, ALL_KINDS, allow_null=True, required=False)
    paused = Field(BOOLEAN, "True pauses, false resumes.", required=False)


class SecretReplacement(Schema):
    """How long the old secret signs beside the new one."""

    overlap = Field(OVERLAP, "In seconds; at most 7 days. 0 by default.", required=False)


class Empty(Schema):
    """Nothing."""

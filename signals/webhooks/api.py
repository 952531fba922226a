"""The API's endpoints of webhook subscriptions (contract, section 4, subscriptions)."""

import re
from datetime import timedelta
from typing import Annotated, Any, TypedDict

from django.core.validators import RegexValidator
from django.urls import path, reverse
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request
from rest_framework.viewsets import ViewSetMixin

from desks.models import Desk, User
from events.actors import Actor
from events.feed import read_head
from events.http.api_view import ApiResponse, ApiView
from events.http.bodies import json_body, raw_body
from events.http.cursors import list_page
from events.http.name_rules import MAX_NAME_LENGTH, validate_name
from events.http.parameters import (
    MAX_TEXT_LENGTH,
    PageParameters,
    Rfc3339Field,
    StrictSerializer,
    StrictTextField,
    contradiction,
)
from events.http.refusals import (
    CursorLost,
    ExchangeSecret,
    FieldCode,
    IdempotencyKeyReused,
    Invalid,
    NotAllowed,
    SignInRequired,
)
from events.http.schemas import JSON_BODY, NextPage, endpoint
from events.json_schema import JsonObject, pattern
from events.kinds import Kind
from signals.outbound.addresses import MAX_URL_LENGTH
from signals.webhooks import actions
from signals.webhooks.models import MAX_OF_DESK, MAX_OF_PLATFORM, Subscription
from signals.webhooks.records import (
    EXAMPLE_CURSOR,
    KINDS_AND_GROUPS,
    KINDS_HELP,
    AttemptRecord,
    SubscriptionRecord,
    attempt_records,
    record_of,
)
from tokens.actions import MAX_OVERLAP
from tokens.callers.authentication import SessionOrBearerAuthentication
from tokens.callers.permissions import SignedInToChange
from tokens.callers.staff import is_staff
from tokens.callers.throttling import count_change, count_made
from tokens.crypto import formats
from tokens.crypto.exchange_secrets import body_contains_secret

LIST = "subscriptions"
Authenticators = list[BaseAuthentication]
# What each action counts against. Removing counts against nothing, as everything that ends does.
# A rewind can send a whole history again, so it counts apart.
SPENDS = {
    "create": "destinations",
    "replace_secret": "destinations",
    "change": "changes",
    "test": "changes",
    "skip": "changes",
    "resend": "changes",
    "rewind": "rewinds",
}

IDEMPOTENCY_KEY = "Idempotency-Key"
KEY_FORM = re.compile("[!-~]{1,128}")

# Of a position that the database can hold.
EVENT_ID, EXAMPLE_EVENT_ID = r"^evt_[1-9][0-9]{0,17}\Z", "evt_2"

# --- What is sent --------------------------------------------------------------------------------


class StrictBooleanField(serializers.BooleanField):
    """JSON's true or false. The framework also accepts numbers and words."""

    def to_internal_value(self, data: object) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input="…")
        return data


class StrictNumberField(serializers.IntegerField):
    """A whole JSON number. The framework also accepts text, and converts it."""

    def to_internal_value(self, data: object) -> int:
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("invalid")
        return data


class NewSubscription(StrictSerializer):
    """A new subscription."""

    url = StrictTextField(
        max_length=MAX_URL_LENGTH,
        trim_whitespace=False,
        help_text="https, port 443 or 8443, without credentials and fragment.",
    )
    name = StrictTextField(
        max_length=MAX_NAME_LENGTH,
        required=False,
        allow_null=True,
        validators=[validate_name],
        help_text="Your own name for it. Null for none.",
    )
    kinds = serializers.ListField(
        child=serializers.ChoiceField(KINDS_AND_GROUPS),
        required=False,
        allow_null=True,
        allow_empty=False,
        min_length=1,  # for the OpenAPI document
        max_length=len(KINDS_AND_GROUPS),
        help_text=KINDS_HELP,
    )
    botId = StrictTextField(
        source="bot",
        max_length=MAX_TEXT_LENGTH,
        required=False,
        allow_null=True,
        help_text="Only events of this bot are delivered. Null for no such limit.",
    )

    def validate(self, data: dict[str, Any]) -> dict[str, Any]:
        """What was sent, as the arguments of an action: these take an empty value for null."""
        empty = {"name": "", "kinds": [], "bot": ""}
        return {name: empty[name] if value is None else value for name, value in data.items()}


class SubscriptionChange(NewSubscription):
    """What changes: at least one of these."""

    url = StrictTextField(
        max_length=MAX_URL_LENGTH,
        trim_whitespace=False,
        required=False,
        help_text="It must answer a test before it gets deliveries.",
    )
    paused = StrictBooleanField(required=False, help_text="True pauses, false resumes.")

    def validate(self, data: dict[str, Any]) -> dict[str, Any]:
        if not data:
            detail = {"url": "Send name, url, kinds, botId or paused."}
            raise serializers.ValidationError(detail, code=FieldCode.REQUIRED)
        return super().validate(data)


class SecretReplacement(StrictSerializer):
    """How long the old secret signs beside the new one."""

    overlap = StrictNumberField(
        min_value=0,
        max_value=int(MAX_OVERLAP.total_seconds()),
        required=False,
        help_text="In seconds; at most 7 days. 0 by default.",
    )


class Rewinding(StrictSerializer):
    """Where deliveries continue: after a cursor of the feed, or at a time."""

    after = StrictTextField(
        max_length=MAX_TEXT_LENGTH, required=False, help_text="A cursor of the feed."
    )
    since = Rfc3339Field(
        required=False,
        help_text="A time of RFC 3339, not in the future: the first event at this time or later is "
        "the next one. What waits before it is skipped.",
    )

    def validate(self, data: dict[str, Any]) -> dict[str, Any]:
        if not data:
            detail = {"after": "Send after or since."}
            raise serializers.ValidationError(detail, code=FieldCode.REQUIRED)
        if len(data) > 1:
            raise contradiction("since", "Send either after or since.")
        return data


class Resending(StrictSerializer):
    """The event that is sent again."""

    event = StrictTextField(
        trim_whitespace=False,
        validators=[RegexValidator(EVENT_ID, "Send the id of an event.", FieldCode.FORM)],
        help_text="The id of an event.",
    )


NEXT, ALL = "next", "all"


class Skipping(StrictSerializer):
    """What is skipped of what waits."""

    events = serializers.ChoiceField(
        [NEXT, ALL], help_text="next: the event that waits first. all: everything that waits."
    )


# --- The answers ---------------------------------------------------------------------------------


SecretText = Annotated[
    str, pattern(f"{formats.WEBHOOK_SECRET}[0-9A-Za-z+/]{{{formats.WEBHOOK_CHARACTERS}}}")
]


class SubscriptionAndSecret(SubscriptionRecord):
    """The record and the new secret."""

    secret: Annotated[SecretText, "It is shown only once."]


class SubscriptionMade(SubscriptionRecord):
    """The record and its secret."""

    secret: Annotated[
        SecretText | None,
        "It is shown only once: null if the request repeats an Idempotency-Key.",
    ]


class AttemptPage(TypedDict):
    """A page of attempts, the newest first."""

    attempts: list[AttemptRecord]
    next: NextPage


class SubscriptionPage(TypedDict):
    """A page of subscriptions."""

    subscriptions: list[SubscriptionRecord]
    next: NextPage


TO_CHANGE = (
    "Requires a session that signed in or re-authenticated within the last 15 minutes. Staff "
    "change the platform's subscriptions."
)
WITH_BODY = (*JSON_BODY, SignInRequired, NotAllowed, ExchangeSecret, Invalid)

# --- The views -----------------------------------------------------------------------------------


class SubscriptionViewSet(ViewSetMixin, ApiView):
    """Tokens only read; every change needs a session of the owner.

    A user's subscriptions are those of the desk, staff's are the platform's.
    """

    tag = "Subscriptions"
    permission_classes = [SignedInToChange]
    required_scopes = {"GET": "read", "HEAD": "read"}

    def get_authenticators(self) -> Authenticators:
        return [SessionOrBearerAuthentication(session_only=("POST", "PATCH", "DELETE"))]

    def initial(self, request: Request, *args: str, **kwargs: str) -> None:
        super().initial(request, *args, **kwargs)
        self.desk = _desk_of(request)
        if limit := SPENDS.get(self.action):
            count_change(request, limit, self.desk)

    @property
    def actor(self) -> Actor:
        """The signed-in user as the actor of an event."""
        user: User = self.request.user  # type: ignore[assignment]
        return user.actor

    def found(self, subscription_id: str) -> Subscription:
        """The caller's subscription. Raises ``NotFound``."""
        return Subscription.objects.of_owner(self.desk).named(subscription_id)

    @endpoint("listSubscriptions", parameters=[PageParameters], refusals=[NotAllowed])
    def list(self, request: Request) -> ApiResponse[SubscriptionPage]:
        """List webhook subscriptions.

        A desk token and a signed-in user list the desk's own, a platform token and staff the
        platform's. A token needs the scope read.
        """
        params = PageParameters.read(request.query_params)
        page, next_cursor = list_page(Subscription.objects.of_owner(self.desk), params, LIST)
        records = [record_of(row) for row in page]
        return ApiResponse({"subscriptions": records, "next": next_cursor})

    @endpoint(
        "createSubscription",
        status=201,
        example=False,
        note=f"{TO_CHANGE} At most {MAX_OF_DESK} for each desk and {MAX_OF_PLATFORM} for the "
        "platform.",
        body=NewSubscription,
        parameters=[
            OpenApiParameter(
                IDEMPOTENCY_KEY,
                {"type": "string", "pattern": f"^{KEY_FORM.pattern}$"},
                OpenApiParameter.HEADER,
                description="Makes the request safe to repeat: as long as its owner has a "
                "subscription that was made with this key, that one is answered. A request "
                "with another URL, name, bot or choice of kinds is refused.",
            ),
            OpenApiParameter(
                "Location",
                str,
                OpenApiParameter.HEADER,
                description="The path of the subscription.",
                response=[201],
            ),
        ],
        bodies={
            "Fills and refusals": {
                "name": "Order book",
                "url": "https://hooks.example.com/signals",
                "kinds": [Kind.SIGNAL_FILLED.value, Kind.SIGNAL_REFUSED.value],
            }
        },
        refusals=[*WITH_BODY, IdempotencyKeyReused],
    )
    def create(self, request: Request) -> ApiResponse[SubscriptionMade]:
        """Add a webhook subscription.

        Deliveries begin with the next event, once the URL has answered a signed test with 2xx and
        the proof that it knows the secret. The secret is shown only once.
        """
        secret, made = actions.create(
            desk=self.desk,
            actor=self.actor,
            **NewSubscription.read(_body(request)),
            idempotency_key=_idempotency_key(request),
        )
        if secret:  # otherwise the request repeated its key, and made nothing
            count_made(request, SPENDS["create"])
        location = {"Location": reverse("subscription", args=[made.public_id])}
        answer: SubscriptionMade = {**record_of(made), "secret": secret or None}
        return ApiResponse(answer, status=201, headers=location)

    @endpoint("readSubscription", refusals=[NotAllowed])
    def retrieve(self, request: Request, subscription_id: str) -> ApiResponse[SubscriptionRecord]:
        """Read a webhook subscription.

        State, cursor, lag and the latest outcome.
        """
        return ApiResponse(record_of(self.found(subscription_id)))

    @endpoint(
        "changeSubscription",
        note=TO_CHANGE,
        body=SubscriptionChange,
        bodies={"Pause": {"paused": True}},
        refusals=[*WITH_BODY, CursorLost],
    )
    def change(self, request: Request, subscription_id: str) -> ApiResponse[SubscriptionRecord]:
        """Change a webhook subscription.

        A new URL must answer a test first. Resuming continues at the cursor: nothing is lost,
        however long it was.
        """
        data = SubscriptionChange.read(_body(request))
        changed = actions.change(webhook=self.found(subscription_id), actor=self.actor, **data)
        return ApiResponse(record_of(changed))

    @endpoint(
        "removeSubscription",
        status=204,
        note=TO_CHANGE,
        refusals=[SignInRequired, NotAllowed],
    )
    def remove(self, request: Request, subscription_id: str) -> ApiResponse[None]:
        """Remove a webhook subscription.

        Its URL, secrets and attempts are deleted.
        """
        actions.remove(webhook=self.found(subscription_id), actor=self.actor)
        return ApiResponse(status=204)

    @endpoint(
        "replaceSubscriptionSecret",
        status=201,
        example=False,
        note=TO_CHANGE,
        body=SecretReplacement,
        bodies={"Over a day": {"overlap": 86400}},
        refusals=WITH_BODY,
    )
    def replace_secret(
        self, request: Request, subscription_id: str
    ) -> ApiResponse[SubscriptionAndSecret]:
        """Replace the secret.

        With an overlap deliveries carry both signatures until the old secret ends. One that is
        already in an overlap ends now. The new secret is shown only once.
        """
        overlap = timedelta(seconds=SecretReplacement.read(_body(request)).get("overlap", 0))
        secret, changed = actions.replace_secret(
            webhook=self.found(subscription_id), actor=self.actor, overlap=overlap
        )
        count_made(request, SPENDS["replace_secret"])
        return ApiResponse({**record_of(changed), "secret": secret}, status=201)

    @endpoint("testSubscription", status=202, note=TO_CHANGE, refusals=WITH_BODY)
    def test(self, request: Request, subscription_id: str) -> ApiResponse[SubscriptionRecord]:
        """Ask for a test.

        A signed `subscription.test` is sent after this answer. Read the subscription until
        `lastTest` has another `at`: it says what became of the test. The test contains a
        `challenge`. The endpoint answers 2xx with `{"challenge": …}`: the HMAC-SHA256 of the
        challenge in hex, with the key of the signatures.
        """
        StrictSerializer.read(_body(request))  # no members
        asked = actions.request_test(webhook=self.found(subscription_id))
        return ApiResponse(record_of(asked), status=202)

    @endpoint(
        "rewindSubscription",
        note=TO_CHANGE,
        body=Rewinding,
        bodies={
            "Again": {"after": EXAMPLE_CURSOR},
            "From a time": {"since": "2026-01-01T00:00:00Z"},
        },
        refusals=[*WITH_BODY, CursorLost],
    )
    def rewind(self, request: Request, subscription_id: str) -> ApiResponse[SubscriptionRecord]:
        """Move the cursor.

        `after` is a cursor of the feed: an earlier one sends everything after it again, a later one
        skips. With `since` in its place, the first event at that time or later is the next one:
        what waits before it is skipped. It takes effect when the delivery in flight has ended.
        """
        data, found = Rewinding.read(_body(request)), self.found(subscription_id)
        if "since" in data:
            moved = actions.replay(webhook=found, since=data["since"], actor=self.actor)
        else:
            moved = actions.rewind(webhook=found, after=data["after"], actor=self.actor)
        return ApiResponse(record_of(moved))

    @endpoint(
        "resendEvent",
        status=202,
        note=TO_CHANGE,
        body=Resending,
        bodies={"One event": {"event": EXAMPLE_EVENT_ID}},
        refusals=WITH_BODY,
    )
    def resend(self, request: Request, subscription_id: str) -> ApiResponse[SubscriptionRecord]:
        """Send one event again.

        It is sent after this response, out of order: the cursor stays. Its `webhook-id` is the same
        as before. It is sent once: `attempts` says what became of it. The kinds do not count, and a
        paused subscription sends it too.
        """
        event = Resending.read(_body(request))["event"]
        asked = actions.resend(
            webhook=self.found(subscription_id), position=int(event.removeprefix("evt_"))
        )
        return ApiResponse(record_of(asked), status=202)

    @endpoint(
        "skipEvents",
        note=TO_CHANGE,
        body=Skipping,
        bodies={"The next one": {"events": NEXT}, "All that wait": {"events": ALL}},
        refusals=WITH_BODY,
    )
    def skip(self, request: Request, subscription_id: str) -> ApiResponse[SubscriptionRecord]:
        """Skip what waits.

        The next event that waits, or all of them, is not sent. It is a move of the cursor. If
        nothing waits, nothing changes. If the next event is not found in reasonable time, only the
        cursor moves, to where it was looked for: ask again. A `failing` subscription stays so until
        its endpoint answers 2xx.
        """
        every = Skipping.read(_body(request))["events"] == ALL
        found = self.found(subscription_id)
        until = read_head().position if every else actions.next_position(found)
        actions.skip(webhook=found, actor=self.actor, until=until)
        return ApiResponse(record_of(self.found(subscription_id)))

    @endpoint("listAttempts", parameters=[PageParameters], refusals=[NotAllowed])
    def attempts(self, request: Request, subscription_id: str) -> ApiResponse[AttemptPage]:
        """List the latest attempts.

        The newest first: tests too, and each repetition. The latest 50 are kept. What an endpoint
        answered is on the page of the webhook only, because an answer can repeat its URL.
        """
        params, found = PageParameters.read(request.query_params), self.found(subscription_id)
        page, next_cursor = list_page(
            found.attempts.all(), params, found.public_id, newest_first=True
        )
        return ApiResponse({"attempts": attempt_records(found, page), "next": next_cursor})


def _desk_of(request: Request) -> Desk | None:
    """The desk whose subscriptions the caller reaches; None for the platform's."""
    if request.auth is not None:
        desk: Desk | None = request.auth.desk
        return desk
    if is_staff(request._request):
        return None
    owned: Desk | None = getattr(request.user, "desk", None)
    if owned is None:
        raise NotAllowed("This account has no desk.")
    return owned


def _idempotency_key(request: Request) -> str | None:
    """The key that makes the request safe to repeat. Raises ``Invalid``."""
    key: str | None = request.headers.get(IDEMPOTENCY_KEY)
    if key is not None and not KEY_FORM.fullmatch(key):
        raise Invalid.field(
            IDEMPOTENCY_KEY, FieldCode.FORM, "Send 1 to 128 visible ASCII characters."
        )
    return key


def _body(request: Request) -> JsonObject:
    """The parsed body; an empty one counts as an object without members.

    Raises ``ExchangeSecret``: an address that contains a secret of this service would send it out.
    """
    body = json_body(request) if raw_body(request) else {}
    if body_contains_secret(body):
        raise ExchangeSecret
    return body


_ONE = "v1/subscriptions/<subscriptionId:subscription_id>"
_view = SubscriptionViewSet.as_view

urlpatterns = [
    path("v1/subscriptions", _view({"get": "list", "post": "create"}), name="subscriptions"),
    path(
        _ONE,
        _view({"get": "retrieve", "patch": "change", "delete": "remove"}),
        name="subscription",
    ),
    path(f"{_ONE}/secret", _view({"post": "replace_secret"}), name="subscription-secret"),
    path(f"{_ONE}/test", _view({"post": "test"}), name="subscription-test"),
    path(f"{_ONE}/rewind", _view({"post": "rewind"}), name="subscription-rewind"),
    path(f"{_ONE}/resend", _view({"post": "resend"}), name="subscription-resend"),
    path(f"{_ONE}/skip", _view({"post": "skip"}), name="subscription-skip"),
    path(f"{_ONE}/attempts", _view({"get": "attempts"}), name="subscription-attempts"),
]

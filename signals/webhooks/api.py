"""The API's endpoints of webhook subscriptions (contract, section 4, subscriptions)."""

from datetime import timedelta
from typing import Annotated, Any, TypedDict

from django.urls import path
from rest_framework import serializers
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request
from rest_framework.viewsets import ViewSetMixin

from desks.models import Desk, User
from events.actors import Actor
from events.http import limits
from events.http.api_view import ApiResponse, ApiView
from events.http.bodies import json_body, raw_body
from events.http.cursors import list_page
from events.http.parameters import (
    MAX_TEXT_LENGTH,
    PageParameters,
    StrictSerializer,
    StrictTextField,
)
from events.http.refusals import (
    CursorLost,
    ExchangeSecret,
    Invalid,
    NotAllowed,
    RateLimited,
    SignInRequired,
)
from events.http.schemas import JSON_BODY, NextPage, endpoint
from events.json_schema import JsonObject, pattern
from events.kinds import Kind
from signals.outbound.addresses import MAX_URL_LENGTH
from signals.webhooks import actions
from signals.webhooks.models import (
    EXAMPLE_CURSOR,
    MAX_OF_DESK,
    MAX_OF_PLATFORM,
    Subscription,
    SubscriptionRecord,
)
from tokens.actions import MAX_OVERLAP
from tokens.callers.authentication import SessionOrBearerAuthentication
from tokens.callers.permissions import SignedInToChange
from tokens.callers.staff import is_staff
from tokens.crypto import formats
from tokens.crypto.exchange_secrets import contains_secret, is_secret

LIST = "subscriptions"
Authenticators = list[BaseAuthentication]
# What each action counts against. Removing counts against nothing, as everything that ends does.
# A rewind can send a whole history again, so it counts apart.
SPENDS = {
    "create": "minting",
    "replace_secret": "minting",
    "change": "changes",
    "test": "changes",
    "rewind": "rewinds",
}

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
    kinds = serializers.ListField(
        child=serializers.ChoiceField(Kind.choices),
        required=False,
        allow_null=True,
        allow_empty=False,
        min_length=1,  # for the OpenAPI document
        max_length=len(Kind),
        help_text="The kinds that are delivered. Null for all, those of later versions included.",
    )


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
            raise serializers.ValidationError({"url": "Send url, kinds or paused."})
        return data


class SecretReplacement(StrictSerializer):
    """How long the old secret signs beside the new one."""

    overlap = StrictNumberField(
        min_value=0,
        max_value=int(MAX_OVERLAP.total_seconds()),
        required=False,
        help_text="In seconds; at most 7 days. 0 by default.",
    )


class Rewinding(StrictSerializer):
    """The cursor of the feed after which deliveries continue."""

    after = StrictTextField(max_length=MAX_TEXT_LENGTH)


# --- The answers ---------------------------------------------------------------------------------


class SubscriptionAndSecret(SubscriptionRecord):
    """The record and the new secret."""

    secret: Annotated[
        str,
        pattern(f"{formats.WEBHOOK_SECRET}[0-9A-Za-z+/]{{{formats.WEBHOOK_CHARACTERS}}}"),
        "It is shown only once.",
    ]


class SubscriptionPage(TypedDict):
    """A page of subscriptions."""

    subscriptions: list[SubscriptionRecord]
    next: NextPage


TO_CHANGE = (
    "Requires a session that signed in or re-authenticated within the last 15 minutes. Staff "
    "change the platform's subscriptions."
)
WITH_BODY = (*JSON_BODY, SignInRequired, NotAllowed, RateLimited, ExchangeSecret, Invalid)

# --- The views -----------------------------------------------------------------------------------


class SubscriptionViewSet(ViewSetMixin, ApiView):
    """Tokens only read; every change needs a session of the owner.

    A customer's subscriptions are those of the desk, staff's are the platform's.
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
            of_desk = limits.desk_limits(self.desk.public_id) if self.desk else []
            limits.consume_all([(limit, str(request.user.pk)), *of_desk])

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

        A desk token and a signed-in customer list the desk's own, a platform token and staff the
        platform's. A token needs the scope read.
        """
        params = PageParameters.read(request.query_params)
        page, next_cursor = list_page(Subscription.objects.of_owner(self.desk), params, LIST)
        records = [row.to_record() for row in page]
        return ApiResponse({"subscriptions": records, "next": next_cursor})

    @endpoint(
        "createSubscription",
        status=201,
        example=False,
        note=f"{TO_CHANGE} At most {MAX_OF_DESK} for each desk and {MAX_OF_PLATFORM} for the "
        "platform.",
        body=NewSubscription,
        bodies={
            "Fills and refusals": {
                "url": "https://hooks.example.com/signals",
                "kinds": [Kind.SIGNAL_FILLED.value, Kind.SIGNAL_REFUSED.value],
            }
        },
        refusals=WITH_BODY,
    )
    def create(self, request: Request) -> ApiResponse[SubscriptionAndSecret]:
        """Add a webhook subscription.

        Deliveries begin with the next event, once the URL has answered a signed test with 2xx and
        the proof that it knows the secret. The secret is shown only once.
        """
        data = NewSubscription.read(_body(request))
        kinds = in_order(data.get("kinds"))
        secret, made = actions.create(
            desk=self.desk, url=data["url"], kinds=kinds, actor=self.actor
        )
        return ApiResponse({**made.to_record(), "secret": secret}, status=201)

    @endpoint("readSubscription", refusals=[NotAllowed])
    def retrieve(self, request: Request, subscription_id: str) -> ApiResponse[SubscriptionRecord]:
        """Read a webhook subscription.

        State, cursor, lag and the latest outcome.
        """
        return ApiResponse(self.found(subscription_id).to_record())

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
        changed = actions.change(
            webhook=self.found(subscription_id),
            actor=self.actor,
            url=data.get("url"),
            kinds=in_order(data["kinds"]) if "kinds" in data else None,
            paused=data.get("paused"),
        )
        return ApiResponse(changed.to_record())

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
        return ApiResponse({**changed.to_record(), "secret": secret}, status=201)

    @endpoint("testSubscription", status=202, note=TO_CHANGE, refusals=WITH_BODY)
    def test(self, request: Request, subscription_id: str) -> ApiResponse[SubscriptionRecord]:
        """Ask for a test.

        A signed `subscription.test` is sent after this answer. Read the subscription until
        `testRequestedAt` is null. It contains a `challenge`. The endpoint answers 2xx with
        `{"challenge": …}`: the HMAC-SHA256 of the challenge in hex, with the key of the signatures.
        """
        StrictSerializer.read(_body(request))  # no members
        asked = actions.request_test(webhook=self.found(subscription_id))
        return ApiResponse(asked.to_record(), status=202)

    @endpoint(
        "rewindSubscription",
        note=TO_CHANGE,
        body=Rewinding,
        bodies={"Again": {"after": EXAMPLE_CURSOR}},
        refusals=[*WITH_BODY, CursorLost],
    )
    def rewind(self, request: Request, subscription_id: str) -> ApiResponse[SubscriptionRecord]:
        """Move the cursor.

        `after` is a cursor of the feed: an earlier one sends everything after it again, a later one
        skips. It takes effect when the delivery in flight has ended.
        """
        after = Rewinding.read(_body(request))["after"]
        moved = actions.rewind(webhook=self.found(subscription_id), after=after, actor=self.actor)
        return ApiResponse(moved.to_record())


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


def _body(request: Request) -> JsonObject:
    """The parsed body; an empty one counts as an object without members.

    Raises ``ExchangeSecret``: an address that contains a secret of this service would send it out.
    An address may hold a key of the service that it leads to. It is stored encrypted.
    """
    body = json_body(request) if raw_body(request) else {}
    url = body.get("url")
    address = url if isinstance(url, str) else ""
    if is_secret(address) or contains_secret(body | {"url": None} if address else body):
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
]

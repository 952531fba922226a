"""The API's endpoints of webhook subscriptions (contract, section 4, subscriptions)."""

from datetime import timedelta
from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.viewsets import ViewSetMixin

from desks.models import Desk, User
from events.actors import Actor
from events.http import limits
from events.http.api_view import ApiResponse, ApiView
from events.http.bodies import json_body, raw_body
from events.http.cursors import list_cursor, list_key, page_of
from events.http.parameters import PageParameters, StrictSerializer
from events.http.refusals import ExchangeSecret, NotAllowed, NotFound
from signals.webhooks import actions, openapi
from signals.webhooks.models import Subscription, SubscriptionQuerySet
from signals.webhooks.openapi import (
    NewSubscription,
    Rewinding,
    SecretReplacement,
    SubscriptionChange,
    in_order,
)
from signals.webhooks.records import records
from tokens.callers.authentication import SessionOrBearerAuthentication
from tokens.callers.permissions import SignedInToChange
from tokens.callers.staff import is_staff
from tokens.crypto.exchange_secrets import contains_secret, is_secret

LIST = "subscriptions"
# What a change counts against. Removing counts against nothing, as everything that ends does.
MINTING, CHANGES, REWINDS = "minting", "changes", "rewinds"


class SubscriptionView(ViewSetMixin, ApiView):
    """What the endpoints share. Tokens only read; every change needs a session of the owner.

    A customer's subscriptions are those of the desk, staff's are the platform's.
    """

    permission_classes = [SignedInToChange]
    required_scopes = {"GET": "read", "HEAD": "read"}
    spends: dict[str, str] = {}

    def get_authenticators(self) -> list[Any]:
        return [SessionOrBearerAuthentication(session_only=("POST", "PATCH", "DELETE"))]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        self.desk = _desk_of(request)
        if limit := self.spends.get(request.method or ""):
            of_desk = limits.desk_limits(self.desk.public_id) if self.desk else []
            limits.consume_all([(limit, str(request.user.pk)), *of_desk])

    @property
    def actor(self) -> Actor:
        """The signed-in user as the actor of an event."""
        user: User = self.request.user  # type: ignore[assignment]
        return self.desk.actor if self.desk else user.actor

    def found(self, subscription_id: str) -> Subscription:
        """The caller's subscription. Raises ``NotFound``."""
        found = self.owned().filter(public_id=subscription_id).first()
        if found is None:
            raise NotFound
        return found

    def owned(self) -> SubscriptionQuerySet:
        owned = Subscription.objects.of_owner(self.desk.pk if self.desk else None)
        return owned.select_related("desk")


class SubscriptionViewSet(SubscriptionView):
    """/api/v1/subscriptions and one of them."""

    spends = {"POST": MINTING, "PATCH": CHANGES}

    @openapi.list_subscriptions
    def list(self, request: Request) -> ApiResponse:
        params = PageParameters.read(request.query_params)
        owned = self.owned()
        if "after" in params:
            owned = owned.filter(pk__gt=list_key(params["after"], LIST))
        rows = [*owned[: params["limit"] + 1]]
        page, next_cursor = page_of(rows, params["limit"], lambda row: list_cursor(LIST, row.pk))
        return ApiResponse({"subscriptions": records(page, timezone.now()), "next": next_cursor})

    @openapi.create_subscription
    def create(self, request: Request) -> ApiResponse:
        data = NewSubscription.read(_body(request))
        kinds = in_order(data.get("kinds"))
        secret, made = actions.create(
            desk=self.desk, url=data["url"], kinds=kinds, actor=self.actor
        )
        return ApiResponse({**_record(made), "secret": secret}, status=201)

    @openapi.read_subscription
    def retrieve(self, request: Request, subscription_id: str) -> ApiResponse:
        return ApiResponse(_record(self.found(subscription_id)))

    @openapi.change_subscription
    def change(self, request: Request, subscription_id: str) -> ApiResponse:
        data = SubscriptionChange.read(_body(request))
        changed = actions.change(
            subscription=self.found(subscription_id),
            actor=self.actor,
            url=data.get("url"),
            kinds=in_order(data["kinds"]) if "kinds" in data else None,
            paused=data.get("paused"),
        )
        return ApiResponse(_record(changed))

    @openapi.remove_subscription
    def remove(self, request: Request, subscription_id: str) -> ApiResponse:
        actions.remove(subscription=self.found(subscription_id), actor=self.actor)
        return ApiResponse(status=204)


class SecretView(SubscriptionView):
    """POST …/secret: replaces the secret."""

    spends = {"POST": MINTING}

    @openapi.replace_secret
    def create(self, request: Request, subscription_id: str) -> ApiResponse:
        overlap = SecretReplacement.read(_body(request)).get("overlap", timedelta(0))
        secret, changed = actions.replace_secret(
            subscription=self.found(subscription_id), actor=self.actor, overlap=overlap
        )
        return ApiResponse({**_record(changed), "secret": secret}, status=201)


class TestView(SubscriptionView):
    """POST …/test: asks for a signed test. It is sent after the answer."""

    spends = {"POST": CHANGES}

    @openapi.test_subscription
    def create(self, request: Request, subscription_id: str) -> ApiResponse:
        StrictSerializer.read(_body(request))  # no members
        asked = actions.request_test(subscription=self.found(subscription_id))
        return ApiResponse(_record(asked), status=202)


class RewindView(SubscriptionView):
    """POST …/rewind: moves the cursor. It can send a whole history again, so it counts apart."""

    spends = {"POST": REWINDS}

    @openapi.rewind_subscription
    def create(self, request: Request, subscription_id: str) -> ApiResponse:
        after = Rewinding.read(_body(request))["after"]
        moved = actions.rewind(
            subscription=self.found(subscription_id), after=after, actor=self.actor
        )
        return ApiResponse(_record(moved))


def _desk_of(request: Request) -> Desk | None:
    """The desk whose subscriptions the caller reaches; None for the platform's."""
    caller: Any = request.auth
    if caller is not None:
        desk: Desk | None = caller.desk
        return desk
    if is_staff(request._request):
        return None
    owned = Desk.objects.filter(user=request.user.pk).first()
    if owned is None:
        raise NotAllowed("This account has no desk.")
    return owned


def _body(request: Request) -> dict[str, Any]:
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


def _record(subscription: Subscription) -> dict[str, Any]:
    return records([subscription], timezone.now())[0]

"""The signal hook, the deploy, and the contract page."""

from typing import Any

from rest_framework.request import Request

from events.api.base import Answer, ApiView
from events.api.bodies import json_body
from events.refusals import SignatureInvalid
from signals import metrics
from signals.api import operations
from signals.api.contract import contract
from signals.received import Received, record_bad_signature
from tokens.authentication import SignerAuthentication

PUBLIC = {"Cache-Control": "public, no-cache"}


class HookView(ApiView):
    """POST /api/hooks/signal takes the four shapes; GET is the contract that describes them."""

    required_scopes = {"POST": "write"}
    for_platform = True

    def get_authenticators(self) -> list[Any]:
        return [SignerAuthentication()] if self.request.method == "POST" else []

    def get_permissions(self) -> list[Any]:
        return list(super().get_permissions()) if self.request.method == "POST" else []

    @operations.read_contract
    def get(self, request: Request) -> Answer:
        return Answer(contract(), headers=PUBLIC)

    @operations.push_signal
    def post(self, request: Request) -> Answer:
        body = json_body(request, any_type=True)
        credential: Any = request.auth
        automation = getattr(credential, "automation", None)
        return _outcome(request, Received(body, credential, automation))

    def handle_exception(self, exc: Exception) -> Any:
        if isinstance(exc, SignatureInvalid):
            record_bad_signature(getattr(self.request._request, "strict_json", {}))
        return super().handle_exception(exc)


class DeployView(ApiView):
    """POST /api/v1/desks/{userId}/signal: one desk, by a named platform."""

    required_scopes = {"POST": "write"}
    for_platform = True

    @operations.deploy_signal
    def post(self, request: Request, user_id: str) -> Answer:
        body = json_body(request)
        credential: Any = request.auth
        return _outcome(request, Received(body, credential, deploy_to=user_id))


def _outcome(request: Request, received: Received) -> Answer:
    """Takes the signal in; the outcome stands in the line that the log gets of the request."""
    answer = metrics.receive(received)
    request._request.outcome = answer["outcome"]  # type: ignore[attr-defined]
    return Answer(answer)

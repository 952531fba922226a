"""The views of the signal hook, the deploy and the contract page."""

from typing import Any

from rest_framework.request import Request

from events.http.api_view import ApiResponse, ApiView
from events.http.bodies import json_body
from events.http.refusals import SignatureInvalid, Unauthenticated
from events.http.request_state import state_of
from signals.api import schemas
from signals.contract.document import contract
from signals.intake.check import check
from signals.intake.incoming import IncomingSignal, record_bad_signature
from signals.intake.metrics import receive_measured
from tokens.callers.authentication import SignerAuthentication, count_failure

PUBLIC = {"Cache-Control": "public, no-cache"}


class HookView(ApiView):
    """POST /api/hooks/signal accepts the four shapes. GET returns the contract page."""

    required_scopes = {"POST": "write"}
    for_platform = True

    def get_authenticators(self) -> list[Any]:
        return [SignerAuthentication()] if self.request.method == "POST" else []

    def get_permissions(self) -> list[Any]:
        return list(super().get_permissions()) if self.request.method == "POST" else []

    @schemas.read_contract
    def get(self, request: Request) -> ApiResponse:
        return ApiResponse(contract(), headers=PUBLIC)

    @schemas.push_signal
    def post(self, request: Request) -> ApiResponse:
        return _outcome(request, _incoming(request))

    def handle_exception(self, exc: Exception) -> Any:
        if isinstance(exc, SignatureInvalid):
            record_bad_signature(state_of(self.request._request).json_body or {})
        return super().handle_exception(exc)


class CheckView(ApiView):
    """POST /api/hooks/check: what the hook would answer, without recording anything."""

    required_scopes = {"POST": "write"}
    for_platform = True

    def get_authenticators(self) -> list[Any]:
        return [SignerAuthentication(notes_use=False)]

    @schemas.check_signal
    def post(self, request: Request) -> ApiResponse:
        checked = check(_incoming(request))
        state_of(request._request).outcome = checked["outcome"]
        return ApiResponse(checked)


class DeployView(ApiView):
    """POST /api/v1/desks/{userId}/signal: deploys a signal to one desk."""

    required_scopes = {"POST": "write"}
    for_platform = True

    @schemas.deploy_signal
    def post(self, request: Request, user_id: str) -> ApiResponse:
        body = json_body(request)
        credential: Any = request.auth
        return _outcome(request, IncomingSignal(body, credential, deploy_to=user_id))


def _incoming(request: Request) -> IncomingSignal:
    credential: Any = request.auth
    automation = getattr(credential, "automation", None)
    return IncomingSignal(json_body(request, any_type=True), credential, automation)


def _outcome(request: Request, incoming: IncomingSignal) -> ApiResponse:
    """Receives the signal and notes its outcome for the request log."""
    try:
        answer = receive_measured(incoming)
    except Unauthenticated as refusal:
        raise count_failure(request, refusal) from None  # the credential ended meanwhile
    state_of(request._request).outcome = answer["outcome"]
    return ApiResponse(answer)

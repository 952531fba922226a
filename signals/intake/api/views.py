"""The views of the signal hook, the deploy, the contract, and what became of a signal."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from django.http import HttpResponse
from django.utils.cache import patch_vary_headers
from rest_framework.request import Request
from rest_framework.viewsets import ViewSetMixin

from events.http.api_view import ApiResponse, ApiView
from events.http.bodies import json_body
from events.http.refusals import Invalid, NotFound, Refused, SignatureInvalid, Unauthenticated
from events.http.requests import state_of
from signals.contract.document import contract
from signals.contract.page import contract_page, prefers_page
from signals.intake.api import schemas
from signals.intake.api.serializers import SignalParameters
from signals.intake.check import check
from signals.intake.incoming import Credential, IncomingSignal
from signals.intake.models import Signal, SignalQuerySet
from signals.intake.receive import receive, record_bad_signature
from tokens.callers.authentication import BearerAuthentication, SignerAuthentication, read_again
from tokens.callers.credentials import CredentialReader
from tokens.callers.throttles import count_failure

Result = TypeVar("Result")

NOT_ACCEPTED = (
    "No signal with this nonce was accepted so far. It may still be on its way, or it was refused: "
    "send it again with the same nonce."
)
PUBLIC = {"Cache-Control": "public, no-cache"}


def document_or_page(request: Request, document: Callable[[], dict[str, Any]]) -> HttpResponse:
    """Answers with a public document as JSON, or with the contract's page if a browser asks."""
    response: HttpResponse
    if prefers_page(request.headers.get("Accept", "")):
        response = HttpResponse(contract_page(), headers=PUBLIC)
    else:
        response = ApiResponse(document(), headers=PUBLIC)
    patch_vary_headers(response, ["Accept"])
    return response


class SignalView(ApiView):
    """A view that takes signals in. Their credentials may come from the cache of this process.

    What a cached credential sends may be accepted, because the log's lock confirms it. Before
    anything else is answered, counted or recorded, the credential is read again.
    """

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        self.perform_authentication(request)
        self.judge(request, lambda: self._check_caller(request))

    def judge(self, request: Request, check: Callable[[], Result]) -> Result:
        """Runs a check. If it refuses a cached credential, reads that again and runs it again."""
        try:
            return check()
        except Refused:
            if not read_again(request):
                raise
        return check()

    def _check_caller(self, request: Request) -> None:
        self.check_permissions(request)
        self.check_throttles(request)


class HookView(SignalView):
    """POST /api/hooks/signal accepts the four shapes. GET returns the contract."""

    required_scopes = {"POST": "write"}
    for_platform = True

    def get_authenticators(self) -> list[Any]:
        reader = CredentialReader(cached=True)
        return [SignerAuthentication(reader)] if self.request.method == "POST" else []

    def get_permissions(self) -> list[Any]:
        return list(super().get_permissions()) if self.request.method == "POST" else []

    @schemas.read_contract
    def get(self, request: Request) -> HttpResponse:
        return document_or_page(request, contract)

    @schemas.push_signal
    def post(self, request: Request) -> ApiResponse:
        return _outcome(request, _incoming(request, json_body(request, any_type=True)))

    def handle_exception(self, exc: Exception) -> Any:
        if isinstance(exc, SignatureInvalid):
            state = state_of(self.request._request)
            record_bad_signature(state.json_body or {}, state.id)
        return super().handle_exception(exc)


class CheckView(ApiView):
    """POST /api/hooks/check: what the hook would answer, without recording anything."""

    required_scopes = {"POST": "write"}
    for_platform = True

    def get_authenticators(self) -> list[Any]:
        return [SignerAuthentication(CredentialReader(notes_use=False))]

    @schemas.check_signal
    def post(self, request: Request) -> ApiResponse:
        checked = check(_incoming(request, json_body(request, any_type=True)))
        state_of(request._request).outcome = checked["outcome"]
        return ApiResponse(checked)


class DeployView(SignalView):
    """POST /api/v1/desks/{userId}/signal: deploys a signal to one desk."""

    required_scopes = {"POST": "write"}
    for_platform = True

    def get_authenticators(self) -> list[Any]:
        return [BearerAuthentication(CredentialReader(cached=True))]

    @schemas.deploy_signal
    def post(self, request: Request, user_id: str) -> ApiResponse:
        body = self.judge(request, lambda: json_body(request))
        return _outcome(request, _incoming(request, body, deploy_to=user_id))


class SignalViewSet(ViewSetMixin, ApiView):
    """What became of a signal: its answer again, for a sender that lost it.

    A desk token sees the signals of its own bots only.
    """

    required_scopes = {"GET": "read", "HEAD": "read"}

    @schemas.find_signal
    def find(self, request: Request) -> ApiResponse:
        params = SignalParameters.read(request.query_params)
        if "source" in params and not request.auth.is_platform:
            raise Invalid.field("source", "not_allowed", "Send the botId of one of your own bots.")
        signer = params.get("source") or params["botId"]
        signals = _visible_signals(request).spending(signer, params["nonce"])
        return _first_answer(signals, NotFound(NOT_ACCEPTED))

    @schemas.read_signal
    def retrieve(self, request: Request, signal_id: str) -> ApiResponse:
        return _first_answer(_visible_signals(request).filter(public_id=signal_id), NotFound())


def _visible_signals(request: Request) -> SignalQuerySet:
    """The signals that the caller may see."""
    signals = Signal.objects.all()
    return signals if request.auth.is_platform else signals.by_bots_of(request.auth.topic)


def _first_answer(signals: SignalQuerySet, refusal: NotFound) -> ApiResponse:
    """The answer to the signal. Raises the refusal if there is none."""
    signal = signals.first()
    if signal is None:
        raise refusal
    return ApiResponse(signal.answer())


def _incoming(
    request: Request, body: dict[str, Any], *, deploy_to: str | None = None
) -> IncomingSignal:
    def confirm() -> Credential | None:
        again: Any = request.auth if read_again(request) else None
        return cast(Credential | None, again)

    credential: Any = request.auth
    automation = getattr(credential, "automation", None)
    return IncomingSignal(
        body, credential, automation, deploy_to, state_of(request._request).id, confirm
    )


def _outcome(request: Request, incoming: IncomingSignal) -> ApiResponse:
    """Receives the signal and notes its outcome for the request log."""
    try:
        answer = receive(incoming)
    except Unauthenticated as refusal:  # the credential ended meanwhile
        confirmed = incoming.confirmed()
        if confirmed is incoming:
            raise count_failure(request, refusal) from None
        return _outcome(request, confirmed)
    state_of(request._request).outcome = answer["outcome"]
    return ApiResponse(answer)

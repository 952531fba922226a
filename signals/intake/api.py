"""The views of the signal hook, the deploy, the contract, and what became of a signal."""

from collections.abc import Callable
from typing import Any

from django.core.validators import RegexValidator
from django.http import HttpResponse, HttpResponseBase
from django.urls import path
from django.utils.cache import patch_vary_headers
from drf_spectacular.utils import OpenApiExample, OpenApiResponse, PolymorphicProxySerializer
from rest_framework import serializers
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request
from rest_framework.viewsets import ViewSetMixin

from desks.ids import EXAMPLE_BOT_ID
from events.http.api_view import ApiResponse, ApiView
from events.http.bodies import json_body
from events.http.parameters import StrictSerializer, TextParameter, contradiction
from events.http.refusals import (
    CursorLost,
    FieldCode,
    Invalid,
    Malformed,
    NotFound,
    Refused,
    SignatureInvalid,
    Unauthenticated,
    Unlawful,
)
from events.http.requests import state_of
from events.http.schemas import JSON_BODY, Body, endpoint
from events.json_schema import EXAMPLE_USER_ID, JsonObject, Refer
from signals.contract import document as sample
from signals.contract.document import Contract, contract
from signals.contract.page import contract_page, prefers_page
from signals.intake.authentication import SignerAuthentication
from signals.intake.incoming_signal import IncomingSignal
from signals.intake.models import (
    EXAMPLE_NONCE,
    Accepted,
    Checked,
    FirstAnswer,
    Signal,
    SignalQuerySet,
    SpentNonce,
)
from signals.intake.receive import check, receive, record_bad_signature
from signals.law import signal_body
from signals.law.refusals import ELECTED, NoCard, NoElection, NonceUsed
from signals.law.signal_body import Shape
from tokens.callers.authentication import BearerAuthentication, CredentialReader
from tokens.callers.throttling import count_failure
from tokens.choices import Source


class SignalParameters(StrictSerializer):
    """The parameters that find a signal: its nonce, and who sent it (contract, section 4)."""

    nonce = serializers.CharField(
        max_length=signal_body.MAX_NONCE_LENGTH,
        validators=[
            RegexValidator(
                rf"^[{signal_body.VISIBLE}]+\Z",  # $ would let a newline follow
                f"Send 1 to {signal_body.MAX_NONCE_LENGTH} visible ASCII characters.",
                FieldCode.FORM,
            )
        ],
        trim_whitespace=False,
        help_text="The nonce of the signal; for Nox its action_id.",
    )
    source = serializers.ChoiceField(  # type: ignore[assignment]
        [Source.FLOOR.value, Source.NOX.value],
        required=False,
        help_text="Who sent it, if it was not a bot. Only for platform tokens.",
    )
    botId = TextParameter("The bot that sent it. A desk token always names one of its own bots.")

    def validate(self, data: JsonObject) -> JsonObject:
        if "source" in data and "botId" in data:
            raise contradiction("botId", "Send either source or botId.")
        if "source" not in data and "botId" not in data:
            detail = "Send botId, or source if no bot sent it."
            raise serializers.ValidationError({"botId": detail}, code=FieldCode.REQUIRED)
        return data


# --- The bodies of signals: the shapes that read them, and the samples of the contract ------------


def described(shape: Shape) -> Body:
    """Describes the body that a shape reads."""

    def schema(refer: Refer) -> JsonObject:
        members = shape.members.items()
        return {
            "type": "object",
            "description": shape.description,
            "properties": {name: member.described() for name, member in members},
            "required": [name for name, member in members if member.is_required],
        }

    return Body(shape.name, schema)


DEPLOY_SIGNAL = described(signal_body.DEPLOY)
FLOOR_SIGNAL = PolymorphicProxySerializer(
    "FloorSignal",
    [described(signal_body.ONE_DESK), described(signal_body.FANOUT)],
    resource_type_field_name=None,
)
PUSHED_SIGNAL = PolymorphicProxySerializer(
    "PushedSignal",
    {
        Source.TRADINGVIEW.value: described(signal_body.AUTOMATION),
        Source.FLOOR.value: FLOOR_SIGNAL,
        Source.NOX.value: described(signal_body.NOX),
    },
    resource_type_field_name="source",
)


def _examples(nonce: str, **names: str) -> list[OpenApiExample]:
    """Returns the named samples of the contract as examples with this nonce, each titled."""
    bodies = sample.bodies(
        ELECTED,
        nonce=nonce,
        traced="20261120-0930",
        bot_id=EXAMPLE_BOT_ID,
        user_id=EXAMPLE_USER_ID,
    )
    return [
        OpenApiExample(title, bodies[name], request_only=True, summary=sample.NOTES[name])
        for name, title in names.items()
    ]


# A client that sends both examples as they are gets two fills.
DEPLOY_EXAMPLES = _examples(EXAMPLE_NONCE[:-1] + "2", oneDesk="Deploy")
PUSH_EXAMPLES = _examples(
    EXAMPLE_NONCE, fanout="Fanout", oneUser="OneUser", floor="Floor", nox="Nox", tv="Automation"
)

# --- The answers and refusals --------------------------------------------------------------------

TAG = "Signals"

ON_THE_HOOK = {*Unlawful.registry(), Malformed, NotFound, NonceUsed} - {CursorLost}
ON_A_DEPLOY = {*ON_THE_HOOK, *JSON_BODY} - {NoElection, NoCard}
SPENT_NONCE = {NonceUsed.status: SpentNonce}

# What the hook and the check have in common.
PUSHED: JsonObject = {
    "body": PUSHED_SIGNAL,
    "bodies": PUSH_EXAMPLES,
    "refusals": ON_THE_HOOK,
    "problems": SPENT_NONCE,
}

# --- The views -----------------------------------------------------------------------------------

NOT_ACCEPTED = (
    "No signal with this nonce was accepted so far. It may still be on its way, or it was refused: "
    "send it again with the same nonce."
)
PUBLIC = {"Cache-Control": "public, no-cache"}


# What a browser gets.
AS_A_PAGE = {"text/html": OpenApiResponse(str, "The same as a page.")}


def document_or_page(request: Request, document: Callable[[], object]) -> HttpResponse:
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

    A cached credential may be out of date. What the log's lock decides is final, because the
    credential is checked there. After any other refusal the credential is read from the database,
    and the request is judged again from the start.
    """

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.reader = CredentialReader(cached=True)

    def respond(self) -> HttpResponseBase:
        try:
            return super().respond()
        except Refused:
            if not self.reader.read_again():
                raise
        self.request = self.initialize_request(self.request._request, *self.args, **self.kwargs)
        return super().respond()

    def receive(self, body: JsonObject, deploy_to: str | None = None) -> ApiResponse[Accepted]:
        """Receives the signal and notes its outcome for the request log."""
        try:
            answer = receive(_incoming(self.request, body, deploy_to))
        except Unauthenticated as refusal:  # the credential has ended
            if not self.reader.used_cache:
                count_failure(self.request, refusal)
            raise
        except Refused:
            self.reader.confirm()
            raise
        state_of(self.request._request).outcome = answer["outcome"]
        return ApiResponse(answer)


class HookView(SignalView):
    """POST /api/hooks/signal accepts the four shapes. GET returns the contract."""

    tag = TAG
    required_scopes = {"POST": "write"}
    for_platform = True

    def get_authenticators(self) -> list[BaseAuthentication]:
        return [SignerAuthentication(self.reader)] if self.request.method == "POST" else []

    def get_permissions(self) -> list[Any]:
        return list(super().get_permissions()) if self.request.method == "POST" else []

    @endpoint("readContract", answer=Contract, example=False, forms=AS_A_PAGE)
    def get(self, request: Request) -> HttpResponse:
        """Read the contract of signals.

        Everything a sender needs to know: the law, the published card, a sample of each shape, how
        to sign with a test vector, and every refusal.
        """
        return document_or_page(request, contract)

    @endpoint("pushSignal", **PUSHED)
    def post(self, request: Request) -> ApiResponse[Accepted]:
        """Push a signal.

        Accepts the four shapes. A `tradingview` signal is signed with the bot's own secret. A
        `floor` or `nox` signal needs a platform token with the write scope, or a signature with the
        secret of its source. Every credential in the request must be valid. The Content-Type header
        is ignored. The whole body is searched for exchange secrets first. Unknown fields are not
        used, and `ignored` lists their names. An accepted signal spends its nonce for good: if the
        nonce is sent again, the response is 409 with the first outcome.
        """
        return self.receive(json_body(request, any_type=True))

    def respond(self) -> HttpResponseBase:
        try:
            return super().respond()
        except SignatureInvalid:
            state = state_of(self.request._request)
            record_bad_signature(state.json_body or {}, state.id)
            raise


class CheckView(ApiView):
    """POST /api/hooks/check: what the hook would answer, without recording anything."""

    tag = TAG
    required_scopes = {"POST": "write"}
    for_platform = True

    def get_authenticators(self) -> list[BaseAuthentication]:
        return [SignerAuthentication(CredentialReader(notes_use=False))]

    @endpoint("checkSignal", **PUSHED)
    def post(self, request: Request) -> ApiResponse[Checked]:
        """Check a signal.

        Takes the same request as the hook and answers what the hook would answer now: the outcome
        and what matched, or the refusal. It fills nothing, records nothing and spends no nonce. It
        counts against the same limits as the hook.
        """
        checked = check(_incoming(request, json_body(request, any_type=True)))
        state_of(request._request).outcome = checked["outcome"]
        return ApiResponse(checked)


class DeployView(SignalView):
    """POST /api/v1/desks/{userId}/signal: deploys a signal to one desk."""

    tag = TAG
    required_scopes = {"POST": "write"}
    for_platform = True

    def get_authenticators(self) -> list[BaseAuthentication]:
        return [BearerAuthentication(self.reader)]

    @endpoint(
        "deploySignal",
        body=DEPLOY_SIGNAL,
        bodies=DEPLOY_EXAMPLES,
        refusals=ON_A_DEPLOY,
        problems=SPENT_NONCE,
    )
    def post(self, request: Request, user_id: str) -> ApiResponse[Accepted]:
        """Deploy to one desk.

        Deploys a signal to the desk in the path. It needs a platform token with the write scope.
        The pair and direction repeat the published card's, and the desk must be ready. The response
        is sent after the signal was committed.
        """
        return self.receive(json_body(request), deploy_to=user_id)


class SignalViewSet(ViewSetMixin, ApiView):
    """What became of a signal: its answer again, for a sender that lost it.

    A desk token sees the signals of its own bots only.
    """

    tag = TAG
    required_scopes = {"GET": "read", "HEAD": "read"}

    @endpoint("findSignal", parameters=[SignalParameters], refusals=[NotFound])
    def find(self, request: Request) -> ApiResponse[FirstAnswer]:
        """Find a signal by its nonce.

        What became of a signal, for a sender that lost the answer. Name the nonce and who sent it:
        `source` for Floor and Nox, `botId` for a bot. Returns the answer that its sender got,
        without `ignored`: the same as `first` of a 409. A platform token sees any signal, a desk
        token those of its own bots. A signal that was refused or not received is `not_found`: send
        it again with the same nonce.
        """
        params = SignalParameters.read(request.query_params)
        if "source" in params and not request.auth.is_platform:
            detail = "Send the botId of one of your own bots."
            raise Invalid.field("source", FieldCode.FORBIDDEN, detail)
        signer = params.get("source") or params["botId"]
        signals = _visible_signals(request).spending(signer, params["nonce"])
        return _first_answer(signals, NotFound(NOT_ACCEPTED))

    @endpoint("readSignal")
    def retrieve(self, request: Request, signal_id: str) -> ApiResponse[FirstAnswer]:
        """Read a signal.

        What became of an accepted signal. Returns the answer that its sender got, without
        `ignored`: the same as `first` of a 409. A platform token sees any signal, a desk token
        those of its own bots.
        """
        return _first_answer(_visible_signals(request).filter(public_id=signal_id), NotFound())


def _visible_signals(request: Request) -> SignalQuerySet:
    """The signals that the caller may see."""
    signals = Signal.objects.all()
    return signals if request.auth.is_platform else signals.by_bots_of(request.auth.topic)


def _first_answer(signals: SignalQuerySet, refusal: NotFound) -> ApiResponse[FirstAnswer]:
    """The answer to the signal. Raises the refusal if there is none."""
    signal = signals.first()
    if signal is None:
        raise refusal
    return ApiResponse(signal.answer())


def _incoming(request: Request, body: JsonObject, deploy_to: str | None = None) -> IncomingSignal:
    credential: Any = request.auth
    automation = getattr(credential, "automation", None)
    return IncomingSignal(body, credential, automation, deploy_to, state_of(request._request).id)


urlpatterns = [
    path("hooks/signal", HookView.as_view(), name="hook"),
    path("hooks/check", CheckView.as_view(), name="check-signal"),
    path("v1/desks/<userId:user_id>/signal", DeployView.as_view(), name="deploy"),
    path("v1/signals", SignalViewSet.as_view({"get": "find"}), name="signals"),
    path(
        "v1/signals/<signalId:signal_id>",
        SignalViewSet.as_view({"get": "retrieve"}),
        name="signal-record",
    ),
]

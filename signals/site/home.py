"""The home page: the product, the published card, the first steps, and a message to try."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone

from desks.forms import ElectionForm
from desks.models import Card
from desks.pair_and_direction import PairAndDirection
from events.http import rate_limits
from events.http.refusals import ExchangeSecret, Malformed
from events.http.requests import rate_limit_address
from events.http.web_pages import page
from events.json_schema import JsonObject
from signals.contract.document import bodies
from signals.intake.decision import LawfulSignal
from signals.intake.incoming_signal import IncomingSignal
from signals.intake.models import Checked
from signals.intake.receive import judge, parse_lawful
from signals.intake.statements import DecisionState
from signals.law.refusals import ELECTED
from signals.page_access import PAGES
from signals.reports.reasons import Check, checks
from signals.site.bots.message_check import DryCheck, MessageForm, examine, message_form, written

ANY_BOT, ANY_CARD = "bot_0123456789abcdefghijkl", "card"


class PlaygroundForm(MessageForm, ElectionForm):
    """What is elected, and a message of a bot."""


@page("GET", "POST")
def home(request: HttpRequest) -> HttpResponse:
    """The home page. A POST tries a message, for anybody, and stores and records nothing."""
    card = Card.objects.published().first()
    elected = PairAndDirection(pair=card.pair, direction=card.direction) if card else ELECTED
    form, result = _form(elected), None
    if request.method == "POST":
        rate_limits.consume(PAGES, rate_limit_address(request))
        form, result = _try(request.POST)
    context = {
        "card": card,
        "hook": settings.BASE_URL + reverse("hook"),
        "form": form,
        "examples": _examples(elected),
        "result": result,
        "checks": _checks(result) if result else [],
    }
    return render(request, "home.html", context, status=422 if form.errors else 200)


# --- The playground: a message, as the hook would answer it --------------------------------------


def _try(post: QueryDict) -> tuple[PlaygroundForm, DryCheck | None]:
    """The form to show, and the result if it is valid.

    A message with a secret is not shown again, unless it is an example of this page.
    The code of the hook decides, for a bot that has elected what the form says. It reads nothing.
    """
    election = ElectionForm(post)
    elected = ELECTED
    if election.is_valid():
        pair, direction = election.cleaned_data["pair"], election.cleaned_data["direction"]
        elected = PairAndDirection(pair=pair, direction=direction)
    data, sample = message_form(post), _sample(elected)
    example = _examples(elected).get(post.get("example", ""))
    if example is not None:
        data["message"] = written(
            {name: value for name, value in {**sample, **example}.items() if value is not None}
        )
    form = PlaygroundForm(data)
    result = examine(data.get("message", ""), sample, elected, lambda body: _judge(body, elected))
    has_secret = any(isinstance(mistake, ExchangeSecret) for mistake in result.mistakes)
    if has_secret and example is None:
        return _form(elected), result
    return form, result if form.is_valid() else None


def _judge(body: JsonObject, elected: PairAndDirection) -> Checked:
    """The answer to a signed message with a new nonce, if its bot, and each desk, elected this."""
    incoming = IncomingSignal(body, credential=None)
    candidate = LawfulSignal(incoming, parse_lawful(incoming))
    pair, direction = elected["pair"], elected["direction"]
    state = DecisionState(
        credential_is_valid=True,
        nox_has_own_secret=False,
        spent_at=None,
        user_id=candidate.user_id,
        connected=True,
        deactivated=False,
        enrolled_id=None,
        card_id=ANY_CARD,
        card_pair=pair,
        card_direction=direction,
        standing=1,
        pair=pair,
        direction=direction,
        was_enrolled=None,
        max_age_seconds=None,
    )
    return judge(candidate, state, None, timezone.now())


def _checks(result: DryCheck) -> list[Check]:
    """Which check decided. There is none if the message is not even JSON."""
    code = result.mistakes[0].code if result.mistakes else None
    return [] if code == Malformed.code else checks(code)


def _form(elected: PairAndDirection) -> PlaygroundForm:
    return PlaygroundForm(initial={**elected, "message": written(_sample(elected))})


def _sample(elected: PairAndDirection) -> JsonObject:
    """The message of a bot that repeats the election."""
    return bodies(elected, nonce="60-2026-11-24T09:30:00Z", bot_id=ANY_BOT)["tv"]


def _examples(elected: PairAndDirection) -> dict[str, JsonObject]:
    """What a button changes in the sample, by its label. None leaves a member out."""
    pair = elected["pair"]
    return {
        "As elected": {},
        "Another pair": {"pair": "ETH/BTC" if pair != "ETH/BTC" else "BTC/USDT"},
        "Only a ticker": {"pair": None, "direction": None, "ticker": pair.replace("/", "")},
        "Mode live": {"mode": "live"},
        "With an exchange key": {"apiKey": "… (a made-up key)"},
    }

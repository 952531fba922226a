"""The list of a desk's bots, and the tabs of one bot's page."""

import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Sequence

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.validators import RegexValidator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.templatetags.static import static
from django.urls import reverse
from django.utils import timezone
from django.utils.crypto import salted_hmac

from desks import actions as desk_actions
from desks.expectation_rules import Expectation
from desks.expectations import change_automation, zone_of
from desks.forms import BotForm, ElectionForm, ExpectationForm, initial_of
from desks.models import Automation, Desk
from desks.models.automation import MAX_BOTS
from events.feed import Query, Span, read_page
from events.http.refusals import ExchangeSecret
from events.http.web_pages import ask, form_page, refusal_beside, sent
from events.models import Event
from signals.contract.sample_code import SECRET, Push, plain_text, push
from signals.page_access import back_to, customer_page, own_bot
from signals.reports.activity import board, lines
from signals.reports.attention import bots_at_a_glance
from signals.reports.counts import DAYS, PUSHED
from signals.site.bots.message_check import MessageForm, dry_check, message_form
from signals.site.desk import Step, next_of
from tokens import actions as token_actions
from tokens.choices import Source
from tokens.models import SigningSecret

LATEST = 10
LATEST_ALERTS = 100  # signals among which the latest alert is looked for
# The names of the tabs' routes, in order, and their labels.
TABS = {
    "bot": "Overview",
    "send": "Send",
    "tradingview": "TradingView",
    "generate": "Secret",
    "check": "Check",
    "alarm": "Alarm",
}


def tab_page(
    request: HttpRequest,
    bot: Automation,
    tab: str,
    form: forms.Form | None = None,
    secrets: Sequence[SigningSecret] | None = None,
    **context: object,
) -> HttpResponse:
    """Renders a tab of the bot's page: the template ``pages/bot_<tab>.html``.

    Adds the bot's standing ``election`` (None without one) and its live ``secrets``, unless they
    are given. A form that was posted has errors, so its status is 422. A query is not posted: the
    scripts fetch that page again, and take it if its status is 200.
    """
    given = {
        "bot": bot,
        "tabs": TABS.items(),
        "open": tab,
        "label": TABS[tab],
        "election": bot.election,
        "secrets": live_secrets(bot) if secrets is None else secrets,
        "form": form,
        **context,
    }
    status = 422 if request.method == "POST" and form and form.errors else 200
    return render(request, f"pages/bot_{tab}.html", given, status=status)


def sample_of(bot: Automation, secret: str = SECRET) -> Push:
    """The template context that shows how the bot sends: message, alerts and code."""
    hook, says_when = settings.BASE_URL + reverse("hook"), bot.max_age is not None
    return push(hook, bot.pk, bot.election, secret, says_when=says_when)


def page_nonce(bot: Automation) -> str:
    """How the nonces of the signals begin that the page of a secret sends itself."""
    return f"page-{bot.pk}-"


def live_secrets(bot: Automation) -> list[SigningSecret]:
    return list(SigningSecret.objects.of(Source.TRADINGVIEW, bot.pk).live(timezone.now()))


# --- All bots -------------------------------------------------------------------------------------


@customer_page("GET", "POST")
def bots(request: HttpRequest, desk: Desk) -> HttpResponse:
    """Lists the desk's bots and how each is doing, and creates a bot."""
    form = BotForm(sent(request))
    if form.is_valid():
        with refusal_beside(form):
            bot = desk_actions.add_automation(desk=desk, actor=desk.actor, **form.cleaned_data)
            return redirect("bot", bot_id=bot.pk)
    now = timezone.now()
    rows = board(desk, list(bots_at_a_glance(desk, now)), now)
    if not rows:
        form.fields["name"].widget.attrs["autofocus"] = True
    return form_page(
        request, "pages/bots.html", form, board=rows, days=str(DAYS), max_bots=MAX_BOTS
    )


# --- Overview: what to set up next until the first fill, then the bot's state ---------------------


@customer_page("GET")
def overview(request: HttpRequest, desk: Desk, bot_id: str) -> HttpResponse:
    """One bot: the steps to its first fill, its election and its latest requests."""
    bot = own_bot(desk, bot_id)
    [status] = board(desk, [bot], timezone.now())
    latest = lines(status.latest[:LATEST], {bot.pk: bot.name})
    secrets, steps, form = live_secrets(bot), list[Step](), ElectionForm()
    if not bot.election:
        form.fields["pair"].widget.attrs["autofocus"] = True
    # Every accepted signal of a bot is a fill. The log finds those of one bot by an index.
    of_bot = Event.objects.filter(topic=desk.public_id, bot_id=bot.pk)
    if not of_bot.exclude(signal_id=None).exists():
        steps = _steps(bot, secrets, is_heard=bool(latest))
    return tab_page(
        request,
        bot,
        "bot",
        form,
        connection=getattr(desk, "connection", None),
        secrets=secrets,
        status=status,
        lines=latest,
        steps=steps,
        next_step=next_of(steps),
    )


def _steps(bot: Automation, secrets: Sequence[SigningSecret], *, is_heard: bool) -> list[Step]:
    """The steps to the bot's first fill, which is the last of them."""
    is_elected = bot.election is not None
    return [
        Step("Elect", "The pair and direction that its signals repeat.", "elect", is_elected),
        Step("Signing secret", "It signs the bot's signals.", "generate", bool(secrets)),
        Step("First signal", "From TradingView or a program.", "tradingview", is_heard),
        Step("First fill", "It appears here automatically.", "check", done=False),
    ]


# --- How to send: by a program, and from TradingView ----------------------------------------------

HOST = r"^(?=.{4,253}\Z)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]*[a-z0-9])?\Z"
ADDRESS = re.compile(r"https?://([^/?#]*)")


class HostField(forms.CharField):
    """A host name. Of an address it takes the host name."""

    def to_python(self, value: object) -> str:
        text = super().to_python(value) or ""
        address = ADDRESS.match(text)
        return address[1] if address else text


class RelayHostForm(forms.Form):
    """The host name of a trader's own relay, to be filled into what the page shows."""

    host = HostField(
        label="Host name of your relay",
        max_length=253,
        validators=[RegexValidator(HOST, "Enter a name such as relay.example.com.")],
        help_text="We fill it in below. We do not store it.",
        widget=forms.TextInput({"autocomplete": "off", "spellcheck": "false", "inputmode": "url"}),
        error_messages={"required": "Enter the host name."},
    )


@customer_page("GET", "POST", spends="pages")
def send(request: HttpRequest, desk: Desk, bot_id: str) -> HttpResponse:
    """The message and sample code that signs and sends it. A POST checks the message."""
    bot = own_bot(desk, bot_id)
    samples, result = sample_of(bot), None
    if request.method == "POST":
        result = dry_check(bot, samples["body"], json.loads(samples["body"]))
    return tab_page(request, bot, "send", result=result, **samples)


@customer_page("GET")
def tradingview(request: HttpRequest, desk: Desk, bot_id: str) -> HttpResponse:
    """The relay's whole set-up, the alert, and what became of the latest one.

    ``host`` is the relay's host name. Signals that a page of the service sent are no alerts.
    """
    bot = own_bot(desk, bot_id)
    form = RelayHostForm(request.GET if "host" in request.GET else None)
    host = form.cleaned_data["host"] if form.is_valid() else EXAMPLE_HOST
    samples = sample_of(bot)
    relay = _relay(bot, host, samples["alerts"][0].message)
    of_bot = Query(limit=LATEST_ALERTS, kinds=PUSHED, having={"bot_id": bot.pk}, descending=True)
    found = read_page(of_bot, lambda window: [Span(desk.public_id)])
    event = next((each for each in found.events if not _is_of_page(each, bot)), None)
    signers = SigningSecret.objects.of(Source.TRADINGVIEW, bot.pk)
    return tab_page(
        request,
        bot,
        "tradingview",
        form,
        relay=relay,
        is_first=not found.more,
        line=lines([event], {bot.pk: bot.name})[0] if event else None,
        signer=signers.filter(public_id=event.actor_id).first() if event else None,
        is_local=not settings.BASE_URL.startswith("https://"),
        **samples,
    )


def _is_of_page(event: Event, bot: Automation) -> bool:
    """Whether a page of the service sent the signal, accepted or refused."""
    said = event.content["signal"] or event.data
    return str(said.get("nonce")).startswith(page_nonce(bot))


# --- A relay's set-up: what a trader copies -------------------------------------------------------

# The relay's programs are static/relay.py and static/relay.worker.js, the texts are in
# templates/relay/. The secret stays blank in them: the trader pastes it.
EXAMPLE_HOST = "relay.example.com"
PATH_BYTES = 24
FILES = (
    *("install.sh", "settings.env", "unit.service", "container.sh", "caddy.txt", "nginx.conf"),
    *("check.sh", "variables.env", "check_worker.sh"),
)


def _relay(bot: Automation, host: str, message: str) -> dict[str, object]:
    """The host name and address of a relay, and its texts by the names of their files.

    ``message`` is the one that the relay's check sends. The path of the address is one that nobody
    can guess, the same each time the page is opened until the first ``SECRET_KEY`` is another one.
    A relay that is installed keeps its own. The service stores it nowhere.
    """
    digest = salted_hmac("signals.pages.relay_path", bot.pk, algorithm="sha256").digest()
    path = "/" + urlsafe_b64encode(digest[:PATH_BYTES]).decode()
    values = {
        "host": host,
        "path": path,
        "hook": settings.BASE_URL + reverse("hook"),
        "program": settings.BASE_URL + static("relay.py"),
        "message": message,
    }
    texts = {
        file.partition(".")[0]: plain_text(f"relay/{file}", **values).rstrip() for file in FILES
    }
    return {"host": host, "url": f"https://{host}{path}", "texts": texts}


# --- Check: a message, as the hook would ----------------------------------------------------------


@customer_page("GET", "POST", spends="pages")
def check(request: HttpRequest, desk: Desk, bot_id: str) -> HttpResponse:
    """Checks a message: every mistake at once. Records nothing and uses no nonce."""
    bot = own_bot(desk, bot_id)
    sample = sample_of(bot)["body"]
    unbound = MessageForm(initial={"message": sample})
    form = MessageForm(message_form(request.POST)) if request.method == "POST" else unbound
    if not form.is_valid():
        return tab_page(request, bot, "check", form)
    result = dry_check(bot, form.cleaned_data["message"], json.loads(sample))
    if any(isinstance(mistake, ExchangeSecret) for mistake in result.mistakes):
        form = unbound
    return tab_page(request, bot, "check", form, result=result)


# --- Alarm: how often the bot is expected to send, and how old its signals may be -----------------

# Usual times, as the form has them, and their labels.
PRESETS = (
    *(("15 minutes", "15 minutes"), ("1 hours", "Hour")),
    *(("4 hours", "4 hours"), ("1 days", "Day")),
)


@customer_page("GET", "POST")
def alarm(request: HttpRequest, desk: Desk, bot_id: str) -> HttpResponse:
    """Shows and changes what is expected of the bot's signals."""
    bot = own_bot(desk, bot_id)
    form = ExpectationForm(sent(request), initial=initial_of(bot))
    if form.is_valid():
        with refusal_beside(form):
            change_automation(automation=bot, actor=desk.actor, **form.chosen())
            messages.success(request, "Saved.")
            return redirect("alarm", bot_id=bot.pk)
    zone = zone_of(bot)
    midnight = Expectation(None, 0).deadline(timezone.now(), zone)
    return tab_page(request, bot, "alarm", form, time_zone=zone, midnight=midnight, presets=PRESETS)


# --- Changes --------------------------------------------------------------------------------------


@customer_page("GET", "POST")
def elect(request: HttpRequest, desk: Desk, bot_id: str) -> HttpResponse:
    """Elects a pair and a direction for a bot. Replaces its standing election."""
    bot = own_bot(desk, bot_id)
    form = ElectionForm(sent(request))
    if form.is_valid():
        with refusal_beside(form):
            desk_actions.elect(automation=bot, actor=desk.actor, **form.cleaned_data)
            messages.success(request, "Election saved.")
            return redirect("bot", bot_id=bot.pk)
    return form_page(request, "pages/elect.html", form, bot=bot, election=bot.election)


@customer_page("GET", "POST", spends=None)
def withdraw(request: HttpRequest, desk: Desk, bot_id: str) -> HttpResponse:
    """Asks for confirmation, then withdraws the bot's election."""
    bot = own_bot(desk, bot_id)
    if bot.election is None:
        return redirect("bot", bot_id=bot.pk)
    return ask(
        request,
        "Withdraw the election?",
        f"The election of {bot.election} for the bot {bot.name} ends.",
        "The bot's signals are refused until you elect again.",
        act="Withdraw",
        perform=lambda: desk_actions.withdraw(desk=desk, automation=bot, actor=desk.actor),
        done="The bot's election is withdrawn. The bot's signals are now refused.",
        back=back_to(bot),
    )


@customer_page("GET", "POST", spends=None)
def remove(request: HttpRequest, desk: Desk, bot_id: str) -> HttpResponse:
    """Asks for confirmation, then removes the bot."""
    bot = own_bot(desk, bot_id)
    return ask(
        request,
        f"Remove {bot.name}?",
        "The bot's election is withdrawn and its signing secrets end.",
        "All its later signals are refused.",
        "You cannot restore a removed bot.",
        act="Remove",
        perform=lambda: token_actions.remove_automation(automation=bot, actor=desk.actor),
        done="The bot is removed.",
        back=back_to(bot),
        after="bots",
    )

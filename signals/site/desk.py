"""Pages of the desk: overview, connection, and enrolment in the published card."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from desks import actions as desk_actions
from desks.forms import ConnectionForm, EnrolmentForm
from desks.models import Card, Desk, Election
from desks.visibility import desk_visibility
from events.feed import Query, Window, read_page
from events.http.web_pages import ask, form_page, refusal_beside, sent
from signals.page_access import customer_page
from signals.reports.activity import lines
from signals.reports.attention import bots_at_a_glance, cards_of, concerns
from signals.reports.counts import count
from signals.webhooks.models import Subscription
from tokens.models import Token

LATEST = 20
ENROLLED = (
    "You are now enrolled in the published card. The engine's signals fill your desk from now on."
)
NEXT_A_BOT = (
    "Next, create a bot if you want signals of your own, such as chart alerts. Your desk is ready "
    "without one, too."
)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a checklist. ``page`` is the route of the page where the user does it."""

    title: str
    meaning: str
    page: str
    done: bool


def next_of(steps: Sequence[Step]) -> Step | None:
    """The first step that is not done."""
    return next((step for step in steps if not step.done), None)


@customer_page("GET")
def overview(request: HttpRequest, desk: Desk) -> HttpResponse:
    """The desk at a glance: what needs attention, today, the last days, and the latest events."""
    visible = functools.cache(desk_visibility(desk))  # read once for the whole page
    page = read_page(Query(limit=LATEST, descending=True), visible)
    head = page.head.position
    now = timezone.localtime()
    bots = list(bots_at_a_glance(desk, now))
    spans = visible(Window(1, head, descending=True))
    tallies = count(desk.public_id, spans, head, [bot.pk for bot in bots], now)
    card, lapsed = cards_of(desk)
    elected_at = getattr(card, "elected_at", None)
    token = Token.objects.active(now).filter(desk=desk).first()
    connection = getattr(desk, "connection", None)
    has_sender = bool(token or bots)
    steps = [
        Step("Connect", "Choose your venue. We never ask for a key.", "connect", bool(connection)),
        Step("Enrol", "Elect what the published card shows.", "enrol", bool(elected_at)),
        Step("Token or bot", "Read your desk or push your own signals.", "bots", has_sender),
        Step("First signal", "It appears here automatically.", "activity", tallies.was_ever_filled),
    ]
    context = {
        "desk": desk,
        "connection": connection,
        "card": card,
        "elected_at": elected_at,
        "token": token,
        "steps": steps,
        "next_step": next_of(steps),
        "concerns": concerns(
            published=card,
            lapsed=lapsed,
            bots=bots,
            tallies=tallies.bots,
            token=token,
            now=now,
            webhooks=Subscription.objects.of_owner(desk.pk),
        ),
        "is_lapsed": lapsed is not None,
        "bots": [(bot, tallies.bots[bot.pk]) for bot in bots],
        "tallies": tallies,
        "lines": lines(page.events, {bot.pk: bot.name for bot in bots}),
    }
    return render(request, "pages/desk.html", context)


@customer_page("GET", "POST")
def connect(request: HttpRequest, desk: Desk) -> HttpResponse:
    """Connects the desk to a venue from the list."""
    form = ConnectionForm(sent(request))
    if form.is_valid():
        with refusal_beside(form):
            desk_actions.connect(desk=desk, venue=form.cleaned_data["venue"], actor=desk.actor)
            messages.success(request, "Your desk is connected.")
            return redirect("desk")
    return form_page(request, "pages/connect.html", form)


@customer_page("GET", "POST", spends=None)
def disconnect(request: HttpRequest, desk: Desk) -> HttpResponse:
    """Lists the elections to be withdrawn, then disconnects the desk."""
    if not hasattr(desk, "connection"):
        return redirect("desk")
    elections = Election.objects.standing().filter(desk=desk).select_related("card", "automation")
    return ask(
        request,
        "Disconnect your desk?",
        "All elections of your desk are withdrawn.",
        "No signal reaches the desk until you connect and elect again.",
        act="Disconnect",
        perform=lambda: desk_actions.disconnect(desk=desk, actor=desk.actor),
        done="Your desk is disconnected. All its elections are withdrawn.",
        back=("Desk", reverse("desk")),
        elections=elections,
    )


@customer_page("GET", "POST")
def enrol(request: HttpRequest, desk: Desk) -> HttpResponse:
    """Enrols in the published card, if it is still the card that the page showed."""
    form = EnrolmentForm(sent(request))
    if form.is_valid():
        with refusal_beside(form):
            desk_actions.enrol(desk=desk, card_id=form.cleaned_data["card"], actor=desk.actor)
            is_set_up = desk.automations.exists() or Token.objects.filter(desk=desk).exists()
            done = f"{ENROLLED} {'' if is_set_up else NEXT_A_BOT}"
            messages.success(request, done.rstrip())
            return redirect("desk" if is_set_up else "bots")
    card = Card.objects.published().first()
    return form_page(request, "pages/enrol.html", form, desk=desk, card=card)


@customer_page("GET", "POST", spends=None)
def withdraw(request: HttpRequest, desk: Desk) -> HttpResponse:
    """Asks for confirmation, then withdraws the election on the published card."""
    election = Election.objects.standing().filter(desk=desk, card__isnull=False).first()
    if election is None:
        return redirect("desk")
    return ask(
        request,
        "Withdraw your election?",
        f"Your election of {election} on the published card ends.",
        "Your desk is not ready then: the engine's signals do not reach it until you enrol again.",
        act="Withdraw",
        perform=lambda: desk_actions.withdraw(desk=desk, actor=desk.actor),
        done="Your election on the published card is withdrawn.",
        back=("Desk", reverse("desk")),
    )

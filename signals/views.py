"""Pages that show a customer what stands and what happened: the desk, a bot, the activity."""

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db.models import OuterRef, Prefetch, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from desks import actions
from desks.forms import BotForm, ElectionForm
from desks.models import Automation, Card, Desk, Election
from desks.models.automation import MOST_BOTS
from desks.pages import customer_page, form_page, own_bot, refusal_beside, sent
from events.cursors import log_position
from events.feed import Query, read_page
from events.kinds import Kind
from events.models import Head
from events.refusals import Invalid
from signals.activity import Line, cursors, lines, newest_first, was_filled
from signals.forms import MessageForm
from signals.pulse import pulses
from signals.verdict import verdict
from tokens.models import SigningSecret, Source, Token
from tokens.models.token import desk_view
from tokens.samples import push

LATEST = 20
A_PAGE = 50
# The kinds of events that a desk sees, as its owner would say them.
KINDS_IN_WORDS = {kind.value: kind.label.capitalize() for kind in Kind}


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the way to the first signal: what it means, and the page where it is done."""

    title: str
    meaning: str
    address: str
    done: bool


@customer_page("GET")
def overview(request: HttpRequest, desk: Desk) -> HttpResponse:
    """The desk at a glance."""
    bots = _names_of_bots(desk)
    page = read_page(Query(limit=LATEST, descending=True), desk_view(desk))
    shown = lines(page.events, bots)
    if _is_fragment(request):
        return _fragment(request, shown)
    card, elected_at = _published_card(desk)
    token = Token.objects.in_force(timezone.now()).filter(desk=desk).first()
    steps = _steps(
        connected=hasattr(desk, "connection"),
        enrolled=elected_at is not None,
        equipped=bool(token or bots),
        filled=was_filled(desk, page),
    )
    context = {
        "desk": desk,
        "connection": getattr(desk, "connection", None),
        "card": card,
        "elected_at": elected_at,
        "token": token,
        "steps": steps,
        "next_step": next((step for step in steps if not step.done), None),
        "lines": shown,
    }
    return render(request, "signals/desk.html", context)


def _steps(*, connected: bool, enrolled: bool, equipped: bool, filled: bool) -> list[Step]:
    return [
        Step("Connect", "Name your venue. No key is asked for.", reverse("connect"), connected),
        Step("Enrol", "Elect the published card as it is shown.", reverse("enrol"), enrolled),
        Step(
            "Token or bot",
            "Read your desk, or push signals of your own.",
            reverse("bots"),
            equipped,
        ),
        Step("First signal", "It appears here by itself.", reverse("activity"), filled),
    ]


@customer_page("GET", "POST")
def bots(request: HttpRequest, desk: Desk) -> HttpResponse:
    """The desk's bots and how they are doing, and a new one."""
    form = BotForm(sent(request))
    if form.is_valid():
        with refusal_beside(form):
            bot = actions.add_automation(desk=desk, name=form.cleaned_data["name"])
            return redirect("bot", bot_id=bot.pk)
    kept = _bots_of(desk)
    beats = pulses(desk, {bot.pk: bot.name for bot in kept}, timezone.now())
    rows = [(bot, beats[bot.pk]) for bot in kept]
    return form_page(request, "signals/bots.html", form, bots=rows, most=MOST_BOTS)


@customer_page("GET")
def one_bot(request: HttpRequest, desk: Desk, bot_id: str) -> HttpResponse:
    """A bot: its election, its secrets, how it pushes, and what came of it."""
    bot, now = own_bot(desk, bot_id), timezone.now()
    pulse = pulses(desk, {bot.pk: bot.name}, now)[bot.pk]
    if _is_fragment(request):
        return _fragment(request, pulse.latest, compare=True)
    election = Election.objects.standing().filter(automation=bot).first()
    context = {
        "bot": bot,
        "connection": getattr(desk, "connection", None),
        "election": election,
        "form": ElectionForm(),
        "secrets": SigningSecret.objects.of(Source.TRADINGVIEW, bot.pk).live(now),
        "pulse": pulse,
        "lines": pulse.latest,
        "compare": True,
        **push(settings.BASE_URL + reverse("hook"), bot.pk, election),
    }
    return render(request, "signals/bot.html", context)


@customer_page("GET", "POST")
def check(request: HttpRequest, desk: Desk, bot_id: str) -> HttpResponse:
    """What the hook would say to a message. Nothing is recorded, and no nonce is spent."""
    bot = own_bot(desk, bot_id)
    election = Election.objects.standing().filter(automation=bot).first()
    sample = push(settings.BASE_URL + reverse("hook"), bot.pk, election)["body"]
    form = MessageForm(sent(request), initial={"message": sample})
    if form.is_valid():
        found = verdict(bot, form.cleaned_data["message"])
        return render(request, "signals/check.html", {"bot": bot, "form": form, "verdict": found})
    return form_page(request, "signals/check.html", form, bot=bot)


@customer_page("GET")
def activity(request: HttpRequest, desk: Desk) -> HttpResponse:
    """What happened, a page at a time: down from the cursor ``after``, or with ``newer`` up."""
    query = _query(request)
    page = read_page(query, desk_view(desk))
    shown = lines(newest_first(query, page), _names_of_bots(desk))
    if _is_fragment(request):
        return _fragment(request, shown)
    context = {
        "kind": next(iter(query.kinds), ""),
        "kinds": KINDS_IN_WORDS,
        "lines": shown,
        "is_latest": query.after is None,
        **cursors(query, page),
    }
    return render(request, "signals/activity.html", context)


def _is_fragment(request: HttpRequest) -> bool:
    """Whether an open page asks what came since: for its list of events, and nothing else."""
    return "fragment" in request.GET


def _fragment(request: HttpRequest, shown: list[Line], *, compare: bool = False) -> HttpResponse:
    return render(request, "events/list.html", {"lines": shown, "compare": compare})


def _query(request: HttpRequest) -> Query:
    """What the address asks for; raises ``Invalid`` or ``CursorLost``."""
    kind, after = request.GET.get("kind", ""), request.GET.get("after", "")
    if kind and kind not in Kind.values:
        raise Invalid.field("kind", "unknown", "Choose a kind of the list.")
    head = Head.objects.get()
    return Query(
        after=log_position(after, head.epoch, head.position) if after else None,
        limit=A_PAGE,
        kinds=(kind,) if kind else (),
        descending="newer" not in request.GET,
    )


def _published_card(desk: Desk) -> tuple[Card | None, datetime | None]:
    """The published card, and since when the desk is enrolled in it; each null where it is not."""
    own = Election.objects.standing().filter(desk=desk, card=OuterRef("pk")).values("elected_at")
    card = Card.objects.published().annotate(elected_at=Subquery(own)).first()
    return card, getattr(card, "elected_at", None)


def _names_of_bots(desk: Desk) -> dict[str, str]:
    """The names of the bots that the desk has, by their ids."""
    return dict(Automation.objects.kept().filter(desk=desk).values_list("pk", "name"))


def _bots_of(desk: Desk) -> list[Automation]:
    """The kept bots, each with its standing election in ``standing``."""
    standing = Prefetch("elections", Election.objects.standing(), to_attr="standing")
    return list(Automation.objects.kept().filter(desk=desk).prefetch_related(standing))

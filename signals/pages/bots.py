"""Pages of the desk's bots: the list, one bot, its election, the message check, its removal."""

from django.conf import settings
from django.contrib import messages
from django.db.models import Prefetch
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from desks import actions as desk_actions
from desks.forms import BotForm, ElectionForm
from desks.models import Automation, Desk, Election
from desks.models.automation import MAX_BOTS
from events.http.refusals import ExchangeSecret
from signals.pages.access import back_to, customer_page, form_page, own_bot, refusal_beside, sent
from signals.pages.confirmation import ask
from signals.pages.dry_check import dry_check
from signals.pages.forms import MessageForm
from signals.pages.fragments import fragment, is_fragment
from signals.pages.samples import push
from signals.reports.bot_activity import bot_activities
from tokens import actions as token_actions
from tokens.choices import Source
from tokens.models import SigningSecret


@customer_page("GET", "POST")
def bots(request: HttpRequest, desk: Desk) -> HttpResponse:
    """Lists the desk's bots with their activity, and creates a bot."""
    form = BotForm(sent(request))
    if form.is_valid():
        with refusal_beside(form):
            bot = desk_actions.add_automation(
                desk=desk, name=form.cleaned_data["name"], actor=desk.actor
            )
            return redirect("bot", bot_id=bot.pk)
    automations = _bots_of(desk)
    activities = bot_activities(desk, {bot.pk: bot.name for bot in automations}, timezone.now())
    rows = [(bot, activities[bot.pk]) for bot in automations]
    return form_page(request, "pages/bots.html", form, bots=rows, max_bots=MAX_BOTS)


@customer_page("GET")
def one_bot(request: HttpRequest, desk: Desk, bot_id: str) -> HttpResponse:
    """One bot: its election, its secrets, sample code, and its latest requests."""
    bot, now = own_bot(desk, bot_id), timezone.now()
    activity = bot_activities(desk, {bot.pk: bot.name}, now)[bot.pk]
    if is_fragment(request):
        return fragment(request, activity.latest, compare=True)
    election = Election.objects.standing().filter(automation=bot).first()
    context = {
        "bot": bot,
        "connection": getattr(desk, "connection", None),
        "election": election,
        "form": ElectionForm(),
        "secrets": SigningSecret.objects.of(Source.TRADINGVIEW, bot.pk).live(now),
        "activity": activity,
        "lines": activity.latest,
        "compare": True,
        **push(settings.BASE_URL + reverse("hook"), bot.pk, election),
    }
    return render(request, "pages/bot.html", context)


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
    election = Election.objects.standing().filter(automation=bot).first()
    return form_page(request, "pages/elect.html", form, desk=desk, bot=bot, election=election)


@customer_page("GET", "POST", spends=None)
def withdraw_bot(request: HttpRequest, desk: Desk, bot_id: str) -> HttpResponse:
    """Asks for confirmation, then withdraws the bot's election."""
    bot = own_bot(desk, bot_id)
    if request.method == "POST":
        desk_actions.withdraw_from_automation(automation=bot, actor=desk.actor)
        messages.success(
            request, "The bot's election is withdrawn. The bot's signals are now refused."
        )
        return redirect("bot", bot_id=bot.pk)
    election = Election.objects.standing().filter(automation=bot).first()
    if election is None:
        return redirect("bot", bot_id=bot.pk)
    return ask(
        request,
        "Withdraw the election?",
        f"The election of {election} for the bot {bot.name} ends.",
        "The bot's signals are refused until you elect again.",
        act="Withdraw",
        back=back_to(bot),
    )


@customer_page("GET", "POST", spends="pages")
def check(request: HttpRequest, desk: Desk, bot_id: str) -> HttpResponse:
    """Checks a message as the hook would. Records nothing and uses no nonce."""
    bot = own_bot(desk, bot_id)
    election = Election.objects.standing().filter(automation=bot).first()
    sample = push(settings.BASE_URL + reverse("hook"), bot.pk, election)["body"]
    unbound = MessageForm(initial={"message": sample})
    form = MessageForm(request.POST) if request.method == "POST" else unbound
    if form.is_valid():
        result = dry_check(bot, form.cleaned_data["message"])
        if isinstance(result.refusal, ExchangeSecret):
            form = unbound
        return render(request, "pages/check.html", {"bot": bot, "form": form, "result": result})
    return form_page(request, "pages/check.html", form, bot=bot)


@customer_page("GET", "POST", spends=None)
def remove(request: HttpRequest, desk: Desk, bot_id: str) -> HttpResponse:
    """Asks for confirmation, then removes the bot."""
    bot = own_bot(desk, bot_id)
    if request.method == "POST":
        token_actions.remove_automation(automation=bot, actor=desk.actor)
        messages.success(request, "The bot is removed.")
        return redirect("bots")
    return ask(
        request,
        f"Remove {bot.name}?",
        "The bot's election is withdrawn and its signing secrets end.",
        "All its later signals are refused.",
        "You cannot restore a removed bot.",
        act="Remove",
        back=back_to(bot),
    )


def _bots_of(desk: Desk) -> list[Automation]:
    """The desk's bots that are not removed, each with its election in the list ``standing``."""
    standing = Prefetch("elections", Election.objects.standing(), to_attr="standing")
    return list(Automation.objects.not_removed().filter(desk=desk).prefetch_related(standing))

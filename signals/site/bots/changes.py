"""The changes of a bot on its pages: its election, and its removal."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from desks import actions as desk_actions
from desks.forms import ElectionForm
from desks.models import Desk
from events.http.pages import ask, form_page, refusal_beside, sent
from signals.site.bots.tabs import election_of
from signals.web.access import back_to, customer_page, own_bot
from tokens import actions as token_actions


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
    election = election_of(bot)
    return form_page(request, "pages/elect.html", form, desk=desk, bot=bot, election=election)


@customer_page("GET", "POST", spends=None)
def withdraw(request: HttpRequest, desk: Desk, bot_id: str) -> HttpResponse:
    """Asks for confirmation, then withdraws the bot's election."""
    bot = own_bot(desk, bot_id)
    if request.method == "POST":
        desk_actions.withdraw_from_automation(automation=bot, actor=desk.actor)
        messages.success(
            request, "The bot's election is withdrawn. The bot's signals are now refused."
        )
        return redirect("bot", bot_id=bot.pk)
    election = election_of(bot)
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

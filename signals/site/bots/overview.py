"""The first tab of a bot's page: what to set up next until the first fill, then the bot's state."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from desks.forms import ElectionForm
from desks.models import Automation, Desk
from signals.reports.bot_activity import bot_activities
from signals.site.bots.tabs import election_of, live_secrets, tab_page, was_ever_filled
from signals.site.desk import Step
from signals.web.access import customer_page, own_bot


@customer_page("GET")
def overview(request: HttpRequest, desk: Desk, bot_id: str) -> HttpResponse:
    """One bot: the steps to its first fill, its election and its latest requests."""
    bot = own_bot(desk, bot_id)
    activity = bot_activities(desk, {bot.pk: bot.name}, timezone.now())[bot.pk]
    context: dict[str, Any] = {
        "election": election_of(bot),
        "secrets": live_secrets(bot),
        "activity": activity,
        "lines": activity.latest,
        "compare": True,
        "form": ElectionForm(),
    }
    if not was_ever_filled(bot):
        context |= _steps(
            bot,
            elected=context["election"] is not None,
            equipped=bool(context["secrets"]),
            heard=activity.last is not None,
        )
    return tab_page(request, desk, bot, "bot", **context)


def _steps(bot: Automation, *, elected: bool, equipped: bool, heard: bool) -> dict[str, Any]:
    """The steps to the bot's first fill, and the first one that is not done."""

    def address(name: str) -> str:
        return reverse(name, args=[bot.pk])

    steps = [
        Step("Elect", "The pair and direction that its signals repeat.", address("elect"), elected),
        Step("Signing secret", "It signs the bot's signals.", address("generate"), equipped),
        Step("First signal", "From TradingView or a program.", address("tradingview"), heard),
        Step("First fill", "It appears here automatically.", address("check"), False),
    ]
    return {"steps": steps, "next_step": next(step for step in steps if not step.done)}

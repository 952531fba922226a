"""The page of all bots of a desk."""

from django.db.models import Prefetch
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from desks import actions as desk_actions
from desks.forms import BotForm
from desks.models import Automation, Desk, Election
from desks.models.automation import MAX_BOTS
from events.http.pages import form_page, refusal_beside, sent
from signals.reports.bot_activity import bot_activities
from signals.web.access import customer_page


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


def _bots_of(desk: Desk) -> list[Automation]:
    """The desk's bots that are not removed, each with its election in the list ``standing``."""
    standing = Prefetch("elections", Election.objects.standing(), to_attr="standing")
    return list(Automation.objects.not_removed().filter(desk=desk).prefetch_related(standing))

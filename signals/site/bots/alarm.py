"""The tab that says how often a bot is expected to send, and how old its signals may be."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from desks.expectations.actions import change_automation, zone_of
from desks.expectations.forms import ExpectationForm, initial_of
from desks.models import Desk
from events.http.pages import refusal_beside, sent
from signals.site.bots.tabs import tab_page
from signals.web.access import customer_page, own_bot


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
    status = 422 if form.is_bound else 200
    return tab_page(request, desk, bot, "alarm", form=form, time_zone=zone_of(bot), status=status)

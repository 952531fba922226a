"""The tab that checks a message as the hook would."""

import json
from typing import Any

from django.http import HttpRequest, HttpResponse

from desks.models import Desk
from events.http.refusals import ExchangeSecret
from signals.site.bots.dry_check import dry_check
from signals.site.bots.tabs import election_of, sample_of, tab_page
from signals.site.forms import MessageForm
from signals.web.access import customer_page, own_bot


@customer_page("GET", "POST", spends="pages")
def check(request: HttpRequest, desk: Desk, bot_id: str) -> HttpResponse:
    """Checks a message: every mistake at once. Records nothing and uses no nonce."""
    bot = own_bot(desk, bot_id)
    election = election_of(bot)
    sample = sample_of(bot, election)["body"]
    unbound = MessageForm(initial={"message": sample})
    form = MessageForm(request.POST) if request.method == "POST" else unbound
    context: dict[str, Any] = {"election": election, "form": form}
    if not form.is_bound:
        return tab_page(request, desk, bot, "check", **context)
    if not form.is_valid():
        return tab_page(request, desk, bot, "check", status=422, **context)
    result = dry_check(bot, form.cleaned_data["message"], json.loads(sample))
    if any(isinstance(mistake, ExchangeSecret) for mistake in result.mistakes):
        context["form"] = unbound
    return tab_page(request, desk, bot, "check", result=result, **context)

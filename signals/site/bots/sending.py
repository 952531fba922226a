"""The tabs that say how to send a bot's signals: by a program, and from TradingView."""

from django.http import HttpRequest, HttpResponse

from desks.models import Desk
from signals.site.bots.relay_setup import EXAMPLE_HOST, relay_setup
from signals.site.bots.tabs import election_of, sample_of, tab_page
from signals.site.forms import RelayHostForm
from signals.web.access import customer_page, own_bot


@customer_page("GET")
def send(request: HttpRequest, desk: Desk, bot_id: str) -> HttpResponse:
    """The message and sample code that signs and sends it."""
    bot = own_bot(desk, bot_id)
    election = election_of(bot)
    samples = sample_of(bot, election)
    return tab_page(request, desk, bot, "send", election=election, **samples)


@customer_page("GET")
def tradingview(request: HttpRequest, desk: Desk, bot_id: str) -> HttpResponse:
    """The relay's whole set-up and the alert. ``host`` is the relay's host name."""
    bot = own_bot(desk, bot_id)
    election = election_of(bot)
    form = RelayHostForm(request.GET if "host" in request.GET else None)
    host = form.cleaned_data["host"] if form.is_valid() else EXAMPLE_HOST
    samples = sample_of(bot, election)
    return tab_page(
        request,
        desk,
        bot,
        "tradingview",
        form=form,
        relay=relay_setup(bot, host, samples["alerts"][0].message),
        election=election,
        **samples,
    )

"""What the tabs of a bot's page share: the bot, its state, and the links between the tabs."""

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone

from desks.models import Automation, Desk, Election
from signals.contract.samples import SECRET, push
from signals.intake.models import Signal
from tokens.choices import Source
from tokens.models import SigningSecret

# The names of the tabs' routes, in order, and their labels.
TABS = {
    "bot": "Overview",
    "send": "Send",
    "tradingview": "TradingView",
    "generate": "Secret",
    "check": "Check",
    "alarm": "Alarm",
}


@dataclass(frozen=True, slots=True)
class Tab:
    """A link to one of the tabs."""

    label: str
    address: str
    is_open: bool


def tab_page(
    request: HttpRequest,
    desk: Desk,
    bot: Automation,
    tab: str,
    *,
    status: int = 200,
    **context: Any,
) -> HttpResponse:
    """Renders a tab of the bot's page: the template ``pages/bot_<tab>.html``.

    Adds to the context the bot's standing ``election`` (None without one) and its live ``secrets``.
    """
    shared = {
        "bot": bot,
        "tabs": [
            Tab(label, reverse(name, args=[bot.pk]), name == tab) for name, label in TABS.items()
        ],
        "connection": getattr(desk, "connection", None),
        "secrets": live_secrets(bot),
    }
    if "election" not in context:
        shared["election"] = election_of(bot)
    return render(request, f"pages/bot_{tab}.html", {**shared, **context}, status=status)


def election_of(bot: Automation) -> Election | None:
    return Election.objects.standing().filter(automation=bot).first()


def sample_of(bot: Automation, election: Election | None, secret: str = SECRET) -> dict[str, Any]:
    """The template context that shows how the bot sends: message, alerts and code."""
    hook, says_when = settings.BASE_URL + reverse("hook"), bot.max_age is not None
    return push(hook, bot.pk, election, secret, says_when=says_when)


def live_secrets(bot: Automation) -> list[SigningSecret]:
    return list(SigningSecret.objects.of(Source.TRADINGVIEW, bot.pk).live(timezone.now()))


def was_ever_filled(bot: Automation) -> bool:
    """Whether the bot ever filled its desk. Every accepted signal of a bot is a fill."""
    return Signal.objects.filter(signer=bot.pk).exists()

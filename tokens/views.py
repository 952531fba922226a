"""Pages of a customer's credentials: the desk token, and the signing secrets of bots.

A value is shown in the answer to the request that made it, and nowhere else: it stands in no
address, session, message or log. Reloading that answer makes another value.
"""

from django.conf import settings
from django.contrib import messages
from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from desks.models import Automation, Desk, Election
from desks.pages import customer_page, form_page, own_bot, refusal_beside, sent
from events.refusals import NotFound
from tokens import actions, samples
from tokens.forms import SecretForm
from tokens.models import SigningSecret, Source, Token


@customer_page("GET", "POST", spends="minting")
def mint(request: HttpRequest, desk: Desk) -> HttpResponse:
    """Mints the desk's token in place of the one in force, and shows its value this once."""
    if request.method == "POST":
        value, token = actions.mint_desk_token(desk=desk)
        context = {"value": value, "token": token, "me": settings.BASE_URL + reverse("me")}
        return render(request, "tokens/token_shown.html", context)
    in_force = Token.objects.in_force(timezone.now()).filter(desk=desk).first()
    return render(request, "tokens/mint.html", {"in_force": in_force})


@customer_page("POST")
def revoke(request: HttpRequest, desk: Desk) -> HttpResponse:
    """Revokes the desk's token."""
    token = Token.objects.filter(desk=desk, revoked_at=None).select_related("desk").first()
    if token is not None:
        actions.revoke(token=token)
    messages.success(request, "Your desk token is revoked: it is refused from now on.")
    return redirect("desk")


@customer_page("GET", "POST", spends="minting")
def generate(request: HttpRequest, desk: Desk, bot_id: str) -> HttpResponse:
    """Generates a bot's signing secret and shows it this once."""
    bot = own_bot(desk, bot_id)
    in_use = SigningSecret.objects.of(Source.TRADINGVIEW, bot.pk).live(timezone.now()).first()
    # Without a secret in use there is no overlap to choose.
    form = SecretForm(sent(request)) if in_use else Form(sent(request))
    if form.is_valid():
        with refusal_beside(form):
            text, secret = actions.generate_secret(
                source=Source.TRADINGVIEW, automation=bot, **form.cleaned_data
            )
            return _show(request, bot, text, secret)
    return form_page(request, "tokens/generate.html", form, bot=bot, in_use=in_use)


@customer_page("POST")
def end(request: HttpRequest, desk: Desk, bot_id: str, secret_id: str) -> HttpResponse:
    """Ends one of a bot's signing secrets at once."""
    bot = own_bot(desk, bot_id)
    owned = SigningSecret.objects.of(Source.TRADINGVIEW, bot.pk).select_related("automation__desk")
    secret = owned.filter(public_id=secret_id).first()
    if secret is None:
        raise NotFound("There is no such secret, or it is not yours to see.")
    actions.end_secret(secret=secret)
    messages.success(request, "The secret is ended: what it signs is refused from now on.")
    return redirect("bot", bot_id=bot.pk)


@customer_page("GET", "POST")
def remove(request: HttpRequest, desk: Desk, bot_id: str) -> HttpResponse:
    """Says what removing a bot does, then does it."""
    bot = own_bot(desk, bot_id)
    if request.method == "POST":
        actions.remove_automation(automation=bot)
        messages.success(request, "The bot is removed.")
        return redirect("bots")
    return render(request, "tokens/remove.html", {"bot": bot})


def _show(request: HttpRequest, bot: Automation, text: str, secret: SigningSecret) -> HttpResponse:
    election = Election.objects.standing().filter(automation=bot).first()
    context = {
        "bot": bot,
        "value": text,
        "secret": secret,
        "election": election,
        **samples.push(settings.BASE_URL + reverse("hook"), bot.pk, election, text),
    }
    return render(request, "tokens/secret_shown.html", context)

"""Pages of a customer's credentials: the desk token, and the signing secrets of bots.

A value is shown only in the response to the request that created it. It is never in a URL, session,
message or log. Reloading that response creates nothing (``tokens.forms``).
"""

from django.conf import settings
from django.contrib import messages
from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from desks.models import Desk
from events.http.refusals import found_or_404
from events.http.web_pages import ask, form_page, refusal_beside, sent
from signals.page_access import back_to, customer_page, own_bot
from signals.site.bots.pages import live_secrets, page_nonce, sample_of, tab_page
from tokens import actions as token_actions
from tokens.choices import Source
from tokens.forms import EndForm, RevokeForm, SecretForm, refuse_used, used_once
from tokens.models import SigningSecret, Token


@customer_page("GET", "POST", spends="minting")
def mint(request: HttpRequest, desk: Desk) -> HttpResponse:
    """Mints a desk token, which replaces the active one, and shows its value once.

    The form says which token its page named, or none. Another one is not replaced unasked.
    """
    refuse_used(request)
    form = Form(sent(request))
    if form.is_valid():
        replaces = request.POST.get("replaces")
        with refusal_beside(form), used_once(request):
            value, _ = token_actions.mint_desk_token(desk=desk, actor=desk.actor, replaces=replaces)
            context = {"value": value, "me": settings.BASE_URL + reverse("me")}
            return render(request, "pages/token_shown.html", context)
    active = Token.objects.active(timezone.now()).filter(desk=desk).first()
    return form_page(request, "pages/mint.html", form, active=active)


@customer_page("GET", "POST", spends=None)
def revoke(request: HttpRequest, desk: Desk) -> HttpResponse:
    """Asks for confirmation, then revokes the desk's token, if it is the one that was named."""
    token = Token.objects.filter(desk=desk, revoked_at=None).select_related("desk").first()
    if token is None:
        return redirect("desk")
    if request.POST.get("token", token.public_id) != token.public_id:
        messages.error(request, f"{token_actions.OTHER_TOKEN} Check again what is revoked.")
        return redirect("revoke")
    return ask(
        request,
        "Revoke your desk token?",
        f"Programs that use the token {token.hint} are refused from the next request on.",
        "You cannot restore a revoked token, but you can mint a new one.",
        act="Revoke",
        perform=lambda: token_actions.revoke(token=token, actor=desk.actor),
        done=f"Your desk token {token.hint} is revoked. Requests with it are now refused.",
        back=("Desk", reverse("desk")),
        form=RevokeForm(initial={"token": token.public_id}),
    )


@customer_page("GET", "POST", spends="minting")
def generate(request: HttpRequest, desk: Desk, bot_id: str) -> HttpResponse:
    """Generates a signing secret for a bot and shows it once."""
    bot = own_bot(desk, bot_id)
    refuse_used(request)
    in_use = live_secrets(bot)
    # If no secret is in use, there is no overlap to choose.
    form = SecretForm(sent(request)) if in_use else Form(sent(request))
    if form.is_valid():
        with refusal_beside(form), used_once(request):
            text, _ = token_actions.generate_secret(
                source=Source.TRADINGVIEW, actor=desk.actor, automation=bot, **form.cleaned_data
            )
            context = {
                "bot": bot,
                "value": text,
                "election": bot.election,
                "nonce": page_nonce(bot),
                **sample_of(bot, text),
            }
            return render(request, "pages/secret_shown.html", context)
    return tab_page(request, bot, "generate", form, secrets=in_use)


@customer_page("GET", "POST", spends=None)
def end(request: HttpRequest, desk: Desk, bot_id: str, secret_id: str) -> HttpResponse:
    """Asks for confirmation, then ends one of a bot's signing secrets at once."""
    bot = own_bot(desk, bot_id)
    owned = SigningSecret.objects.of(Source.TRADINGVIEW, bot.pk).select_related("automation__desk")
    secret = found_or_404(owned.filter(public_id=secret_id).first(), "secret")
    return ask(
        request,
        "End the signing secret?",
        f"Signals that the bot {bot.name} signs with {secret.hint} are refused from now on.",
        "You cannot restore an ended secret, but you can generate a new one.",
        act="End now",
        perform=lambda: token_actions.end_secret(secret=secret, actor=desk.actor),
        done="The secret is ended. Signatures made with it are now refused.",
        back=back_to(bot),
    )


@customer_page("GET", "POST", spends=None)
def end_credentials(request: HttpRequest, desk: Desk) -> HttpResponse:
    """After a password reset, asks whether to end the desk token and the bots' secrets too."""
    token = Token.objects.active(timezone.now()).filter(desk=desk).first()
    secrets = SigningSecret.objects.of_present_bots(desk).live(timezone.now()).count()
    if token is None and not secrets:
        return redirect("desk")
    form = EndForm(sent(request), token=token, secrets=secrets)
    if not form.is_valid():
        return form_page(request, "pages/end_credentials.html", form)
    revoked, ended = token_actions.end_credentials(desk=desk, actor=desk.actor, **form.selected())
    done = ["The desk token is revoked."] * bool(revoked)
    done += [f"{ended} signing secret{'s' * (ended > 1)} of your bots ended."] * bool(ended)
    messages.success(request, " ".join(done))
    return redirect("desk")

"""The changes of a webhook on its pages. Each needs a sign-in of the last 15 minutes."""

from collections.abc import Callable

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from desks.models import Desk
from events.feed.head import read_head
from events.http.cursors import log_cursor
from events.http.pages import ask, form_page, refusal_beside, sent
from events.http.refusals import Invalid
from signals.webhooks import actions
from signals.webhooks.models import Subscription
from signals.webhooks.pages.access import changing_page, own_webhook
from signals.webhooks.pages.forms import ChangeForm, WebhookForm
from signals.webhooks.records import next_position
from signals.webhooks.samples import receivers
from tokens.forms import SecretForm
from tokens.one_time_keys import refuse_used, used_once

MAX_DIGITS = 19  # of the largest position that the database stores
TESTING = "A test is on its way. Reload this page to see what became of it."


@changing_page("GET", "POST", spends="minting")
def new(request: HttpRequest, desk: Desk) -> HttpResponse:
    """Adds a webhook and shows its secret once."""
    refuse_used(request)
    form = WebhookForm(sent(request))
    if form.is_valid():
        with refusal_beside(form), used_once(request):
            secret, made = actions.create(desk=desk, actor=desk.actor, **form.changes())
            return _show(request, secret, made)
    return form_page(request, "webhooks/new.html", form)


@changing_page("GET", "POST")
def change(request: HttpRequest, desk: Desk, webhook_id: str) -> HttpResponse:
    """Changes the URL, the events, or both."""
    webhook = own_webhook(desk, webhook_id)
    form = ChangeForm(sent(request), kinds=webhook.kinds)
    if form.is_valid():
        with refusal_beside(form):
            actions.change(subscription=webhook, actor=desk.actor, **form.changes())
            messages.success(request, "Saved.")
            return redirect("webhook", webhook_id)
    return form_page(request, "webhooks/change.html", form, webhook=webhook)


@changing_page("GET", "POST", spends="minting")
def secret(request: HttpRequest, desk: Desk, webhook_id: str) -> HttpResponse:
    """Replaces the secret and shows the new one once."""
    webhook = own_webhook(desk, webhook_id)
    refuse_used(request)
    form = SecretForm(sent(request))
    if form.is_valid():
        with refusal_beside(form), used_once(request):
            text, changed = actions.replace_secret(
                subscription=webhook, actor=desk.actor, **form.cleaned_data
            )
            return _show(request, text, changed)
    return form_page(request, "webhooks/secret.html", form, webhook=webhook)


@changing_page("GET", "POST", spends=None)
def remove(request: HttpRequest, desk: Desk, webhook_id: str) -> HttpResponse:
    """Asks for confirmation, then removes the webhook."""
    webhook = own_webhook(desk, webhook_id)
    if request.method == "POST":
        actions.remove(subscription=webhook, actor=desk.actor)
        messages.success(request, "The webhook is removed.")
        return redirect("webhooks")
    return ask(
        request,
        f"Remove the webhook to {webhook.host}?",
        "Nothing more is sent to its URL.",
        "The URL, the secret and the list of attempts are deleted. You cannot restore them.",
        act="Remove",
        back=(webhook.host, reverse("webhook", args=[webhook_id])),
    )


def _limit_of_act(request: HttpRequest) -> str:
    """What a button counts against. Skipping sends nothing again."""
    return "rewinds" if request.POST.get("act") == "again" else "changes"


@changing_page("POST", spends=_limit_of_act)
def act(request: HttpRequest, desk: Desk, webhook_id: str) -> HttpResponse:
    """Does what one of the buttons of the webhook's page says."""
    webhook = own_webhook(desk, webhook_id)
    name = request.POST.get("act", "")
    if name == "again":
        said = _again(request, webhook, desk)
    elif name in ACTS:
        said = ACTS[name](webhook, desk)
    else:
        raise Invalid.field("act", "unknown", "Use one of the buttons of the webhook's page.")
    messages.success(request, said)
    return redirect("webhook", webhook_id)


def _test(webhook: Subscription, desk: Desk) -> str:
    actions.request_test(subscription=webhook)
    return TESTING


def _pause(webhook: Subscription, desk: Desk) -> str:
    actions.pause(subscription=webhook, actor=desk.actor)
    return "Paused. Events wait until you resume."


def _resume(webhook: Subscription, desk: Desk) -> str:
    actions.resume(subscription=webhook, actor=desk.actor)
    return "Resumed. What waited is sent in order."


def _skip(webhook: Subscription, desk: Desk) -> str:
    """Skips the event that is tried next."""
    position = next_position(webhook)
    if position is None:
        return "Nothing waits."
    _move(webhook, desk, position)
    return f"evt_{position} is skipped."


def _skip_all(webhook: Subscription, desk: Desk) -> str:
    _move(webhook, desk, read_head().position)
    return "Everything that waited is skipped."


ACTS: dict[str, Callable[[Subscription, Desk], str]] = {
    "test": _test,
    "pause": _pause,
    "resume": _resume,
    "skip": _skip,
    "skip-all": _skip_all,
}


def _again(request: HttpRequest, webhook: Subscription, desk: Desk) -> str:
    """Sends an event and everything after it again."""
    position = _position(request.POST.get("position", ""))
    _move(webhook, desk, position - 1)
    return f"evt_{position} and everything after it is sent again."


def _position(text: str) -> int:
    """The position that a button names. Raises ``Invalid`` for one that the log does not have."""
    is_number = text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS
    if not is_number or not 0 < int(text) <= read_head().position:
        raise Invalid.field("position", "unknown", "Use one of the buttons of the webhook's page.")
    return int(text)


def _move(webhook: Subscription, desk: Desk, position: int) -> None:
    after = log_cursor(read_head().epoch, position)
    actions.rewind(subscription=webhook, after=after, actor=desk.actor)


def _show(request: HttpRequest, text: str, webhook: Subscription) -> HttpResponse:
    context = {"value": text, "webhook": webhook, "samples": receivers(text)}
    return render(request, "webhooks/secret_shown.html", context)

"""The pages of a desk's webhooks: the list, one of them, and its changes.

Each change needs a sign-in of the last 15 minutes. The control area shows the forms and the
attempts too.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from desks.models import Desk
from events.actors import Actor
from events.feed import read_head
from events.http.cursors import log_cursor
from events.http.pages import View, ask, form_page, refusal_beside, sent
from events.http.refusals import Invalid, NotFound
from signals.contract.samples import Sample, plain_text
from signals.outbound.addresses import MAX_URL_LENGTH
from signals.outbound.answers import Fault
from signals.web import Spends, customer_page
from signals.webhooks import actions
from signals.webhooks.models import (
    MAX_ANSWERS,
    MAX_ATTEMPTS,
    MAX_OF_DESK,
    DeliveryAttempt,
    Subscription,
)
from signals.webhooks.records import (
    GROUPS,
    MAX_LAG,
    groups_of,
    in_words,
    kinds_of,
    lag_of,
    next_position,
)
from tokens.callers.staff import signed_in_recently
from tokens.crypto.keys import KeyLostError
from tokens.forms import SecretForm, refuse_used, used_once


def changing_page(*methods: str, spends: Spends = "changes") -> Callable[[View], View]:
    """Declares a page that changes webhooks: it needs a sign-in of the last 15 minutes.

    Without one it leads to the page that asks for it, and back: of a form to the form, of a button
    to the webhook (contract, section 4, subscriptions).
    """

    def decorate(view: View) -> View:
        @customer_page(*methods, spends=spends)
        @functools.wraps(view)
        def checked(
            request: HttpRequest, desk: Desk, *args: object, **kwargs: str
        ) -> HttpResponseBase:
            if not signed_in_recently(request):
                return _prove(request, kwargs.get("webhook_id"), has_form="GET" in methods)
            return view(request, desk, *args, **kwargs)

        return checked

    return decorate


def own_webhook(desk: Desk, webhook_id: str) -> Subscription:
    """The desk's webhook. Raises ``NotFound`` if the desk has no such one."""
    owned = Subscription.objects.of_owner(desk.pk).select_related("desk")
    found = owned.filter(public_id=webhook_id).first()
    if found is None:
        raise NotFound("The webhook does not exist, or you have no access to it.")
    return found


def _prove(request: HttpRequest, webhook_id: str | None, *, has_form: bool) -> HttpResponse:
    back = request.path if has_form else reverse("webhook", args=[webhook_id])
    return redirect(f"{reverse('account_reauthenticate')}?{urlencode({'next': back})}")


# --- Forms ----------------------------------------------------------------------------------------


class Entered(TypedDict):
    url: str
    kinds: list[str]


class Changes(TypedDict):
    url: str | None
    kinds: list[str] | None


class WebhookForm(forms.Form):
    """A new webhook: where to, and which events."""

    url = forms.CharField(
        label="URL",
        max_length=MAX_URL_LENGTH,
        help_text="It begins with https://. We encrypt it and never show it again.",
        widget=forms.TextInput({"autocomplete": "off", "spellcheck": "false", "inputmode": "url"}),
        error_messages={"required": "Enter the URL."},
    )
    groups = forms.MultipleChoiceField(
        label="Events",
        choices=[(name, label) for name, (label, _) in GROUPS.items()],
        required=False,
        help_text="Choose none to get all events, and those of later versions.",
        widget=forms.CheckboxSelectMultiple,
    )

    def entered(self) -> Entered:
        """What was entered, as the arguments of an action."""
        return {"url": self.cleaned_data["url"], "kinds": kinds_of(self.cleaned_data["groups"])}


class ChangeForm(WebhookForm):
    """A change of a webhook. What is left as it was does not change."""

    def __init__(self, data: Any = None, *, kinds: Sequence[str], **options: Any) -> None:
        super().__init__(data, initial={"groups": groups_of(kinds)}, **options)
        url = self.fields["url"]
        url.required, url.label = False, "New URL"
        url.help_text = (
            "Leave it empty to keep the present one. A new one must answer a test first."
        )

    def changes(self) -> Changes:
        """What was changed, as the arguments of an action. None is left as it is."""
        entered = self.entered()
        is_chosen = "groups" in self.changed_data
        return {"url": entered["url"] or None, "kinds": entered["kinds"] if is_chosen else None}


# --- The list, and one webhook --------------------------------------------------------------------

PROOF = (
    'the body of the answer must be {"challenge": "…"} with the HMAC-SHA256 of the test\'s '
    "challenge in hex, as the code below answers it."
)


@dataclass(frozen=True, slots=True)
class ShownAttempt:
    """An attempt as the page shows it. ``event`` is None for a test.

    ``repeats_from`` is the position for its button to send again from there. Of the attempts of one
    event the newest has it.
    """

    event: str | None
    repeats_from: int | None
    at: datetime
    milliseconds: int
    is_success: bool
    outcome: str
    answer: str


@customer_page("GET")
def webhooks(request: HttpRequest, desk: Desk) -> HttpResponse:
    """The desk's webhooks, each with its state and its lag."""
    owned = Subscription.objects.of_owner(desk.pk).select_related("desk")
    rows = [(webhook, _lag(webhook)) for webhook in owned]
    return render(request, "webhooks/list.html", {"rows": rows, "most": MAX_OF_DESK})


@customer_page("GET")
def webhook(request: HttpRequest, desk: Desk, webhook_id: str) -> HttpResponse:
    """One webhook."""
    found = own_webhook(desk, webhook_id)
    context = {
        "webhook": found,
        "lag": _lag(found),
        "kinds": in_words(found.kinds),
        "secrets": found.secrets.live(timezone.now()),
        "attempts": attempts_of(found),
        "most_attempts": MAX_ATTEMPTS,
        "most_answers": MAX_ANSWERS,
        "samples": receivers(),
    }
    return render(request, "webhooks/one.html", context)


def attempts_of(found: Subscription) -> list[ShownAttempt]:
    """The latest attempts, the newest first."""
    attempts = list(found.attempts.all()[:MAX_ATTEMPTS])
    newest = {attempt.position: attempt.pk for attempt in reversed(attempts)}
    return [_shown(attempt, newest[attempt.position] == attempt.pk) for attempt in attempts]


def _shown(attempt: DeliveryAttempt, is_newest: bool) -> ShownAttempt:
    return ShownAttempt(
        None if attempt.position is None else f"evt_{attempt.position}",
        attempt.position if is_newest else None,
        attempt.at,
        attempt.milliseconds,
        attempt.is_success,
        _outcome(attempt),
        _answer(attempt),
    )


def _answer(attempt: DeliveryAttempt) -> str:
    try:
        return attempt.answer
    except KeyLostError:
        return "It cannot be decrypted any more."


def _outcome(attempt: DeliveryAttempt) -> str:
    """The status, or what went wrong, or both."""
    if attempt.error == Fault.UNPROVEN:
        return f"Answered {attempt.status}, but did not prove that it knows the secret: {PROOF}"
    if attempt.status:
        return str(attempt.status)
    return Fault(attempt.error).sentence if attempt.error in [*Fault] else "There was no answer."


def _lag(found: Subscription) -> str:
    """The number of events that wait, as text."""
    lag = lag_of(found)
    return f"{MAX_LAG:,} or more" if lag >= MAX_LAG else str(lag)


# --- Code that receives deliveries, verifies them and answers tests, to be pasted -----------------

# The placeholder for a secret whose text is no longer known.
SECRET = "whsec_…"  # noqa: S105 - a placeholder

LANGUAGES = (
    ("Python", "pip install standardwebhooks", "python.py"),
    ("Node", "18 or newer, no packages", "node.js"),
    ("PHP", "8 or newer, no packages", "php.php"),
    ("Go", "1.19 or newer, no packages", "go.go"),
)


def receivers(secret: str = SECRET) -> list[Sample]:
    """A receiver in each language, behind your own web server with HTTPS."""
    return [
        Sample(language, needs, plain_text(f"webhooks/receivers/{file}", secret=secret))
        for language, needs, file in LANGUAGES
    ]


# --- Changes --------------------------------------------------------------------------------------

MAX_DIGITS = 19  # of the largest position that the database stores


@changing_page("GET", "POST", spends="minting")
def new(request: HttpRequest, desk: Desk) -> HttpResponse:
    """Adds a webhook and shows its secret once."""
    refuse_used(request)
    form = WebhookForm(sent(request))
    if form.is_valid():
        with refusal_beside(form), used_once(request):
            secret, made = actions.create(desk=desk, actor=desk.actor, **form.entered())
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
        said = _again(request, webhook, desk.actor)
    elif name in ACTS:
        said = ACTS[name](webhook, desk.actor)
    else:
        raise Invalid.field("act", "unknown", "Use one of the buttons of the webhook's page.")
    messages.success(request, said)
    return redirect("webhook", webhook_id)


def _test(webhook: Subscription, actor: Actor) -> str:
    actions.request_test(subscription=webhook)
    return "A test is on its way. Reload this page to see what became of it."


def _pause(webhook: Subscription, actor: Actor) -> str:
    actions.pause(subscription=webhook, actor=actor)
    return "Paused. Events wait until you resume."


def _resume(webhook: Subscription, actor: Actor) -> str:
    actions.resume(subscription=webhook, actor=actor)
    return "Resumed. What waited is sent in order."


def _skip(webhook: Subscription, actor: Actor) -> str:
    """Skips the event that is tried next."""
    position = next_position(webhook)
    if position is None:
        return "Nothing waits."
    _move(webhook, actor, position)
    return f"evt_{position} is skipped."


def _skip_all(webhook: Subscription, actor: Actor) -> str:
    _move(webhook, actor, read_head().position)
    return "Everything that waited is skipped."


# What the buttons of a webhook do, by their names. Each returns what it did.
ACTS: dict[str, Callable[[Subscription, Actor], str]] = {
    "test": _test,
    "pause": _pause,
    "resume": _resume,
    "skip": _skip,
    "skip-all": _skip_all,
}


def _again(request: HttpRequest, webhook: Subscription, actor: Actor) -> str:
    """Sends an event and everything after it again."""
    position = _position(request.POST.get("position", ""))
    _move(webhook, actor, position - 1)
    return f"evt_{position} and everything after it is sent again."


def _position(text: str) -> int:
    """The position that a button names. Raises ``Invalid`` for one that the log does not have."""
    is_number = text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS
    if not is_number or not 0 < int(text) <= read_head().position:
        raise Invalid.field("position", "unknown", "Use one of the buttons of the webhook's page.")
    return int(text)


def _move(webhook: Subscription, actor: Actor, position: int) -> None:
    after = log_cursor(read_head().epoch, position)
    actions.rewind(subscription=webhook, after=after, actor=actor)


def _show(request: HttpRequest, text: str, webhook: Subscription) -> HttpResponse:
    context = {"value": text, "webhook": webhook, "samples": receivers(text)}
    return render(request, "webhooks/secret_shown.html", context)

"""The webhooks of a desk, and the page of one: its state, its lag and its latest attempts."""

from dataclasses import dataclass
from datetime import datetime

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from desks.models import Desk
from signals.outbound.answers import Fault
from signals.web.access import customer_page
from signals.webhooks.attempts import MAX_ANSWERS, MAX_ATTEMPTS, DeliveryAttempt
from signals.webhooks.kinds import in_words
from signals.webhooks.models import MAX_OF_DESK, Subscription
from signals.webhooks.pages.access import own_webhook
from signals.webhooks.records import MAX_LAG, lag_of
from signals.webhooks.samples import receivers
from tokens.crypto.keys import KeyLostError

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
    return render(request, "webhooks/one.html", facts(own_webhook(desk, webhook_id)))


def facts(found: Subscription) -> dict[str, object]:
    """What the page of a webhook shows, for a desk and for the platform."""
    return {
        "webhook": found,
        "lag": _lag(found),
        "kinds": in_words(found.kinds),
        "secrets": found.secrets.live(timezone.now()),
        "attempts": attempts_of(found),
        "most_attempts": MAX_ATTEMPTS,
        "most_answers": MAX_ANSWERS,
        "samples": receivers(),
    }


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

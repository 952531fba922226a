"""The pages of a desk's webhooks: the list, one of them, and its changes.

Each change needs a sign-in of the last 15 minutes. The control area shows the forms and the
attempts too.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any, NamedTuple

from django import forms
from django.conf import settings
from django.contrib import messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from desks.models import Automation, Desk
from events.actors import Actor
from events.feed import read_head
from events.http.name_rules import NameField
from events.http.refusals import FieldCode, Invalid
from events.http.web_pages import ask, form_page, refusal_beside, sent
from events.kinds import Kind, label_of
from events.models import Event
from signals.contract.sample_code import Sample, plain_text
from signals.outbound.addresses import MAX_URL_LENGTH, is_open
from signals.page_access import customer_page
from signals.webhooks import actions
from signals.webhooks.messages import Message
from signals.webhooks.models import (
    MAX_ANSWERS,
    MAX_ATTEMPTS,
    MAX_LAG,
    MAX_OF_DESK,
    DeliveryAttempt,
    State,
    Subscription,
    without_groups,
)
from tokens.forms import SecretForm, refuse_used, used_once

# --- Kinds of events, in groups that people choose from -------------------------------------------


def _of(*prefixes: str) -> tuple[str, ...]:
    return tuple(kind.value for kind in Kind if kind.startswith(prefixes))


class EventChoice(NamedTuple):
    """Kinds of events that people choose together."""

    label: str
    kinds: tuple[str, ...]


# By its name in a form. Each kind is in exactly one.
EVENT_CHOICES = {
    "fills": EventChoice("Fills", _of("signal.filled")),
    "refusals": EventChoice("Refusals", _of("signal.refused")),
    "unfilled": EventChoice(
        "Dry runs and drafts: signals that fill nothing", _of("signal.dry_run", "signal.recorded")
    ),
    "bots": EventChoice("Bots: created, removed, silent, sending again", _of("automation.")),
    "cards": EventChoice("Cards and elections", _of("card.", "election.")),
    "desk": EventChoice("Desk: connected, disconnected, closed", _of("desk.")),
    "credentials": EventChoice("Tokens and signing secrets", _of("token.", "secret.")),
    "webhooks": EventChoice("Webhooks", _of("subscription.")),
}


def kinds_of(groups: Collection[str]) -> list[str]:
    """The kinds of these groups. All groups or none mean every kind: an empty list."""
    if len(groups) in (0, len(EVENT_CHOICES)):
        return []
    return [kind for name in EVENT_CHOICES if name in groups for kind in EVENT_CHOICES[name].kinds]


def groups_of(kinds: Sequence[str]) -> list[str]:
    """The groups whose kinds are all among these."""
    return [name for name, group in EVENT_CHOICES.items() if {*group.kinds} <= {*kinds}]


def in_words(kinds: Sequence[str]) -> list[str]:
    """What a webhook with these kinds sends: labels of groups, then what is in none.

    A group of the API, such as ``signal.*``, stays as it is.
    """
    groups = groups_of(kinds)
    grouped = {kind for name in groups for kind in EVENT_CHOICES[name].kinds}
    return [
        *(EVENT_CHOICES[name].label for name in groups),
        *(k for k in kinds if k not in grouped),
    ]


def counted(kinds: Collection[str]) -> str:
    """How many events of which groups: "3 events (Fills 2, Refusals 1)", or "1 event (Fills)"."""
    found: dict[str, int] = {}
    for group in EVENT_CHOICES.values():
        if count := sum(kind in group.kinds for kind in kinds):
            found[group.label.partition(":")[0]] = count
    if others := len(kinds) - sum(found.values()):  # kinds of a later release
        found["Others"] = others
    parts = [f"{name} {count}" for name, count in found.items()] if len(found) > 1 else [*found]
    return f"{number_of(len(kinds))} ({', '.join(parts)})"


def number_of(events: int) -> str:
    """So many events in words. Beyond ``MAX_LAG`` nobody counts them."""
    if events > MAX_LAG:
        return f"More than {MAX_LAG:,} events"
    return f"{events} event{'' if events == 1 else 's'}"


# --- Forms ----------------------------------------------------------------------------------------

SAMPLES_LISTEN_AT = "127.0.0.1:8081"  # those of LANGUAGES that have a server of their own
SEALED = "We encrypt it and never show it again."


def url_form() -> str:
    """Which URLs webhooks take here, in words: an operator can open other networks."""
    if is_open(ip_address("127.0.0.1"), usual=False):
        return (
            "It begins with https://. A program on this machine can have http:// and any port, "
            f"such as http://{SAMPLES_LISTEN_AT}, where the samples of the next page listen."
        )
    if settings.DELIVERY_ALLOW:
        return "It begins with https://, or with http:// in a network that the operator has opened."
    return "It begins with https://, and its port is 443 or 8443."


URL_INPUT = forms.TextInput({"autocomplete": "off", "spellcheck": "false", "inputmode": "url"})


class WebhookForm(forms.Form):
    """A new webhook: its name, where to, and which events."""

    name = NameField("So that you recognise it.", label="Name (optional)", required=False)
    url = forms.CharField(
        label="URL",
        max_length=MAX_URL_LENGTH,
        widget=URL_INPUT,
        error_messages={"required": "Enter the URL."},
    )
    groups = forms.MultipleChoiceField(
        label="Events",
        choices=[(name, group.label) for name, group in EVENT_CHOICES.items()],
        required=False,
        help_text="Choose none to get all events, and those of later versions.",
        widget=forms.CheckboxSelectMultiple,
    )

    def __init__(self, *args: Any, bots: Iterable[Automation] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["url"].help_text = self.fields["url"].help_text or f"{url_form()} {SEALED}"
        offered = [(bot.pk, bot.name) for bot in bots]
        if offered:
            self.fields["bot"] = forms.ChoiceField(
                label="Bot",
                choices=[("", "All events, of a bot or not"), *offered],
                required=False,
                help_text="Limits the events to those of one bot.",
            )

    def clean(self) -> dict[str, object]:
        """What was entered, as the arguments of an action."""
        groups = self.cleaned_data.pop("groups", [])
        return {**self.cleaned_data, "kinds": kinds_of(groups)}


class ChangeForm(WebhookForm):
    """A change of a webhook. What is left as it was does not change."""

    url = forms.CharField(
        label="New URL",
        max_length=MAX_URL_LENGTH,
        required=False,
        help_text="Leave it empty to keep the present one. A new one must answer a test first.",
        widget=URL_INPUT,
    )

    def clean(self) -> dict[str, object]:
        entered = super().clean()
        if "groups" not in self.changed_data:
            del entered["kinds"]
        return {**entered, "url": entered.get("url") or None}


def initial_of(webhook: Subscription) -> dict[str, object]:
    """What ``ChangeForm`` shows first."""
    return {"name": webhook.name, "groups": groups_of(webhook.kinds), "bot": webhook.bot}


def _bots(desk: Desk, chosen: str = "") -> QuerySet[Automation]:
    """The bots to whose events a webhook of the desk can be limited, or is."""
    is_offered = Q(removed_at=None) | Q(pk=chosen)
    return Automation.objects.filter(is_offered, desk=desk)


# --- The list, and one webhook --------------------------------------------------------------------


@customer_page("GET")
def webhooks(request: HttpRequest, desk: Desk) -> HttpResponse:
    """The desk's webhooks, each with its state and its lag."""
    rows = [(webhook, _lag(webhook)) for webhook in Subscription.objects.of_owner(desk)]
    return render(request, "webhooks/list.html", {"rows": rows, "most": MAX_OF_DESK})


@customer_page("GET")
def webhook(request: HttpRequest, desk: Desk, webhook_id: str) -> HttpResponse:
    """One webhook."""
    found = Subscription.objects.of_owner(desk).named(webhook_id)
    lag = _lag(found)
    is_sending = found.state == State.ACTIVE and lag != "0"
    context = {
        "webhook": found,
        "lag": lag,
        "is_pending": bool(is_sending or found.test_requested_at or found.resends),
        "kinds": in_words(without_groups(found.kinds)),
        "bot": Automation.objects.filter(pk=found.bot).first(),
        "secrets": found.secrets.live(timezone.now()),
        "samples": receivers(),
        **attempts_of(found, failed_only="failed" in request.GET),
    }
    return render(request, "webhooks/one.html", context)


# What attempts call the kinds of signals. Other kinds are called as the activity calls them.
ATTEMPT_LABELS: dict[str, str] = {
    Kind.SIGNAL_FILLED: "Filled",
    Kind.SIGNAL_REFUSED: "Refused",
    Kind.SIGNAL_DRY_RUN: "Dry run of",
    Kind.SIGNAL_RECORDED: "Recorded",
}


@dataclass(frozen=True, slots=True)
class ShownAttempt:
    """An attempt, and what is sent of its event: None for a test, and for what the log lost.

    ``said`` is what the event is called. A signal's is followed by its pair and direction, ``of``.
    ``can_repeat`` is whether it is the latest attempt of an event that can be sent again, and
    ``can_follow`` whether it can be sent again with everything after it: not if it was sent alone,
    and the webhook gets no such events.
    """

    row: DeliveryAttempt
    said: str
    of: object
    message: Message | None
    can_repeat: bool
    can_follow: bool
    waits: bool  # to be sent again

    @property
    def body(self) -> str:
        """The body of the message."""
        return self.message.body.decode() if self.message else ""


def attempts_of(found: Subscription, *, failed_only: bool = False) -> dict[str, object]:
    """The latest attempts, the newest first, for a template."""
    rows = list(found.attempts.all()[:MAX_ATTEMPTS])
    events, epoch = found.events_of(rows), read_head().epoch
    newest = {row.position: row.pk for row in reversed(rows)}
    shown = [
        _shown(found, row, events.get(row.position or 0), epoch, newest[row.position] == row.pk)
        for row in rows
        if not (failed_only and row.is_success)
    ]
    return {
        "attempts": shown,
        "failed_only": failed_only,
        "most_attempts": MAX_ATTEMPTS,
        "most_answers": MAX_ANSWERS,
    }


def _shown(
    found: Subscription, row: DeliveryAttempt, event: Event | None, epoch: str, is_newest: bool
) -> ShownAttempt:
    said, of = _named(event) if event else ("Test" if row.position is None else "Unknown", None)
    waits = is_newest and row.position in (found.resends or ())
    can_repeat = bool(event) and is_newest and found.is_verified and not waits
    return ShownAttempt(
        row=row,
        said=said,
        of=of,
        message=found.message(event, epoch) if event else None,
        can_repeat=can_repeat,
        can_follow=event is not None and can_repeat and found.gets(event),
        waits=waits,
    )


def _named(event: Event) -> tuple[str, object]:
    """What an event is called, and the pair and direction that belong to it, or None."""
    of, label = event.content["signal"] or event.data.get("sent"), ATTEMPT_LABELS.get(event.kind)
    return (label, of) if label and of else (label_of(event.kind), None)


def _lag(found: Subscription) -> str:
    """The number of events that wait, as text."""
    ahead = found.ahead()
    count = min(len(ahead.kinds), MAX_LAG)
    return f"{count:,} or more" if ahead.more or count == MAX_LAG else str(count)


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


@customer_page("GET", "POST", spends="destinations", recently=True)
def new(request: HttpRequest, desk: Desk) -> HttpResponse:
    """Adds a webhook and shows its secret once."""
    refuse_used(request)
    form = WebhookForm(sent(request), bots=_bots(desk))
    if form.is_valid():
        with refusal_beside(form), used_once(request):
            secret, made = actions.create(desk=desk, actor=desk.actor, **form.cleaned_data)
            return _show(request, secret, made)
    return form_page(request, "webhooks/new.html", form)


@customer_page("GET", "POST", recently=True)
def change(request: HttpRequest, desk: Desk, webhook_id: str) -> HttpResponse:
    """Changes the URL, the events, or both."""
    webhook = Subscription.objects.of_owner(desk).named(webhook_id)
    form = ChangeForm(sent(request), initial=initial_of(webhook), bots=_bots(desk, webhook.bot))
    if form.is_valid():
        with refusal_beside(form):
            actions.change(webhook=webhook, actor=desk.actor, **form.cleaned_data)
            messages.success(request, "Saved.")
            return redirect("webhook", webhook_id)
    return form_page(request, "webhooks/change.html", form, webhook=webhook)


@customer_page("GET", "POST", spends="destinations", recently=True)
def secret(request: HttpRequest, desk: Desk, webhook_id: str) -> HttpResponse:
    """Replaces the secret and shows the new one once."""
    webhook = Subscription.objects.of_owner(desk).named(webhook_id)
    refuse_used(request)
    form = SecretForm(sent(request))
    if form.is_valid():
        with refusal_beside(form), used_once(request):
            text, changed = actions.replace_secret(
                webhook=webhook, actor=desk.actor, **form.cleaned_data
            )
            return _show(request, text, changed)
    return form_page(request, "webhooks/secret.html", form, webhook=webhook)


@customer_page("GET", "POST", spends=None, recently=True)
def remove(request: HttpRequest, desk: Desk, webhook_id: str) -> HttpResponse:
    """Asks for confirmation, then removes the webhook."""
    webhook = Subscription.objects.of_owner(desk).named(webhook_id)
    return ask(
        request,
        f"Remove the webhook {webhook.label}?",
        "Nothing more is sent to its URL.",
        "The URL, the secret and the list of attempts are deleted. You cannot restore them.",
        act="Remove",
        perform=lambda: actions.remove(webhook=webhook, actor=desk.actor),
        done="The webhook is removed.",
        back=(webhook.name or webhook.host, reverse("webhook", args=[webhook_id])),
        after="webhooks",
    )


FAILED, EVERYTHING = "failed", "everything"
PERIODS = {"hour": timedelta(hours=1), "day": timedelta(days=1)}
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)  # no log is older


class AgainForm(forms.Form):
    """Which events are sent again, and since when."""

    what = forms.ChoiceField(
        label="Send again",
        choices=[
            (FAILED, f"what failed: each event whose last attempt failed, of {MAX_ATTEMPTS} kept"),
            (
                EVERYTHING,
                "everything, in order: what waits, all its events since then, then what is new",
            ),
        ],
        initial=FAILED,
        widget=forms.RadioSelect,
    )
    period = forms.ChoiceField(
        label="Since",
        choices=[("hour", "the last hour"), ("day", "the last day"), ("", "a time:")],
        required=False,
        initial="hour",
    )
    since = forms.DateTimeField(
        label="Time", required=False, widget=forms.DateTimeInput({"type": "datetime-local"})
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        zone = timezone.get_current_timezone_name()
        self.fields["since"].help_text = f"In the time zone {zone}. Only if you chose a time."

    def clean(self) -> dict[str, Any]:
        """What was chosen, with the time in ``since``."""
        chosen = self.cleaned_data
        if period := PERIODS.get(chosen.get("period", "")):
            return {**chosen, "since": timezone.now() - period}
        if (since := chosen.get("since")) and EARLIEST < since <= timezone.now():
            return chosen
        if "since" not in self.errors:
            self.add_error("since", "Enter a time in the past.")
        return chosen


@customer_page("GET", "POST", spends="rewinds", recently=True)
def again(request: HttpRequest, desk: Desk, webhook_id: str) -> HttpResponse:
    """Sends again what failed since a time, or moves the cursor back to that time."""
    webhook = Subscription.objects.of_owner(desk).named(webhook_id)
    form = AgainForm(sent(request))
    if form.is_valid():
        with refusal_beside(form):
            messages.success(request, send_again(webhook, desk.actor, form.cleaned_data))
            return redirect("webhook", webhook_id)
    return form_page(request, "webhooks/again.html", form, webhook=webhook)


def send_again(webhook: Subscription, actor: Actor, chosen: dict[str, Any]) -> str:
    """Does what ``AgainForm`` chose. Returns what it did."""
    if chosen["what"] == EVERYTHING:
        after = actions.last_before(chosen["since"])
        return f"Everything since then {_send_from(webhook, after, actor)}"
    count = actions.resend_failed(webhook=webhook, since=chosen["since"])
    is_one = "is" if count == 1 else "are"
    return f"{number_of(count)} {is_one} sent again." if count else NOTHING_FAILED


NOTHING_FAILED = "Nothing is sent again: no event's last attempt has failed since then."


def _send_from(webhook: Subscription, after: int, actor: Actor) -> str:
    """Sends again what follows a position, and skips nothing. Returns the end of a sentence."""
    row = actions.move(webhook=webhook, position=after, actor=actor, may_skip=False)
    older = " Older events that wait are sent first." if row.cursor_position < after else ""
    return f"is sent again, in order{_condition_of(row)}.{older}"


def _condition_of(row: Subscription) -> str:
    """What must happen before a webhook sends events, as the end of a sentence."""
    needed = []
    if row.state in (State.PAUSED, State.DISABLED):
        needed.append("the webhook is resumed")
    if not row.is_verified:
        needed.append("its URL has answered a test")
    return f", once {' and '.join(needed)}" if needed else ""


class SkipForm(forms.Form):
    """The position up to which the page showed what waits. What comes later is not skipped."""

    until = forms.IntegerField(widget=forms.HiddenInput)


@customer_page("GET", "POST", recently=True)
def skip(request: HttpRequest, desk: Desk, webhook_id: str) -> HttpResponse:
    """Says what waits and asks for confirmation, then skips it: all, or with ``next`` the first."""
    webhook = Subscription.objects.of_owner(desk).named(webhook_id)
    is_next = "next" in request.GET and webhook.cursor_epoch == read_head().epoch
    consequences: tuple[str, ...] = ()
    if request.method == "POST":
        until = _position(request.POST.get("until", ""))
    else:
        until = actions.next_position(webhook) if is_next else read_head().position
        consequences = what_is_skipped(webhook, until)
        if not consequences:
            messages.success(request, NOTHING_WAITS)
            return redirect("webhook", webhook_id)
    return ask(
        request,
        "Skip the next event?" if is_next else "Skip everything that waits?",
        *consequences,
        act="Skip",
        perform=lambda: actions.skip(webhook=webhook, actor=desk.actor, until=until),
        done=was_skipped,
        back=(webhook.name or webhook.host, reverse("webhook", args=[webhook_id])),
        form=SkipForm(initial={"until": until}),
    )


NOTHING_WAITS = "Nothing waits."
NOT_COUNTED = (
    "How many events wait is not known: too many that this webhook does not get come before them."
)
LOST = "The position of the last delivery is lost. Deliveries continue with the next event."
NOT_SENT = "What is skipped is not sent any more, unless you send it again."


def what_is_skipped(webhook: Subscription, until: int) -> tuple[str, ...]:
    """What to say before what waits up to this position is skipped; nothing if nothing waits."""
    if webhook.cursor_epoch != read_head().epoch:
        return LOST, NOT_SENT
    ahead = webhook.ahead()
    kinds = [kind for position, kind in ahead.kinds.items() if position <= until]
    if len(kinds) > MAX_LAG:
        return f"This skips {number_of(len(kinds)).lower()}.", NOT_SENT
    if ahead.more and not (kinds and ahead.examined >= until):
        return NOT_COUNTED, NOT_SENT
    return (f"This skips {counted(kinds)}.", NOT_SENT) if kinds else ()


def was_skipped(events: int | None) -> str:
    """What to say after so many events were skipped; None if they were not counted."""
    if events is None:
        return "Skipped."
    if events == 0:
        return "Nothing was skipped."
    return f"{number_of(events)} {'was' if events == 1 else 'were'} skipped."


def _limit_of_act(request: HttpRequest) -> str:
    """What a button counts against."""
    return "rewinds" if request.POST.get("act") == "again" else "changes"


@customer_page("POST", spends=_limit_of_act, recently=True)
def act(request: HttpRequest, desk: Desk, webhook_id: str) -> HttpResponse:
    """Does what one of the buttons of the webhook's page says."""
    webhook = Subscription.objects.of_owner(desk).named(webhook_id)
    button, position = request.POST.get("act", ""), request.POST.get("position", "")
    messages.success(request, press(button, webhook, desk.actor, position))
    return redirect("webhook", webhook_id)


def after_resuming(row: Subscription) -> str:
    """What becomes of the events that waited for a webhook to be resumed."""
    needed = "" if row.is_verified else ", once its URL has answered a test"
    return f"What waited is sent in order{needed}."


OF_THE_PAGE = "Use one of the buttons of the webhook's page."


def press(button: str, webhook: Subscription, actor: Actor, position: str = "") -> str:
    """Does what a button of a webhook's page says. Returns what it did."""
    match button:
        case "test":
            actions.request_test(webhook=webhook)
            return "A test is on its way. “Last test” says what became of it."
        case "pause":
            actions.pause(webhook=webhook, actor=actor)
            return "Paused. Events wait until you resume."
        case "resume":
            row = actions.resume(webhook=webhook, actor=actor)
            return f"Resumed. {after_resuming(row)}"
        case "resend":
            only = _position(position)
            actions.resend(webhook=webhook, position=only)
            return f"evt_{only} is sent again."
        case "again":
            first = _position(position)
            return f"evt_{first} and everything after it {_send_from(webhook, first - 1, actor)}"
    raise Invalid.field("act", FieldCode.CHOICE, OF_THE_PAGE)


def _position(text: str) -> int:
    """The position that a button names. Raises ``Invalid`` for one that the log does not have."""
    try:
        return int(forms.IntegerField(min_value=1, max_value=read_head().position).clean(text))
    except forms.ValidationError:
        raise Invalid.field("position", FieldCode.CHOICE, OF_THE_PAGE) from None


def _show(request: HttpRequest, text: str, webhook: Subscription) -> HttpResponse:
    context = {"value": text, "webhook": webhook, "samples": receivers(text)}
    return render(request, "webhooks/secret_shown.html", context)

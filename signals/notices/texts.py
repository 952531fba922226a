"""What the notices of a desk say: for each kind of event, a subject and a text."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.template.loader import render_to_string
from django.urls import reverse

from desks.models import Card, QueuedNotice, User
from desks.models.notice import LAST, MAX_SUBJECT, NoticeKind
from events.kinds import Kind
from events.models import Event
from signals.reports.reasons import reason_of
from signals.webhooks.models import Subscription

ENDS_SOON = timedelta(days=1)
Told = tuple[NoticeKind, str, str]  # what it is about, the subject and the text


def notice_of(event: Event, user: User) -> QueuedNotice | None:
    """The notice of an event for the owner of its desk; None if there is nothing to tell."""
    told = TEXTS[event.kind](event, user) if event.kind in TEXTS else None
    if told is None:
        return None
    kind, subject, body = told
    notice = new_notice(user, kind, subject, body, event.at)
    if event.kind == Kind.SECRET_ENDED:
        notice.due_at = _ends_at(event) - ENDS_SOON
        notice.about = event.content["data"]["id"]
    return notice


def new_notice(
    user: User, kind: NoticeKind, subject: str, body: str, due: datetime
) -> QueuedNotice:
    return QueuedNotice(user=user, kind=kind, subject=subject[:MAX_SUBJECT], body=body, due_at=due)


def refusal_notice(event: Event, user: User, bot: str) -> QueuedNotice:
    """The first refusal of a bot after a while without one."""
    reason = reason_of(event.content["data"], bot)
    body = f"{reason.sentence}\n\n{reason.advice}\n\n{page('event', event.id)}"
    subject = f"A signal of {bot} was refused"
    return new_notice(user, NoticeKind.REFUSALS, subject, body, event.at)


def refusals_notice(user: User, bot_id: str, bot: str, count: int, now: datetime) -> QueuedNotice:
    """How many refusals were recorded since the last notice about the bot."""
    more = "refusal was" if count == 1 else "refusals were"
    body = f"{count} more {more} recorded since the last notice.\n\n{page('bot', bot_id)}"
    subject = f"{count} more refusals of {bot}" if count > 1 else f"Another refusal of {bot}"
    return new_notice(user, NoticeKind.REFUSALS, subject, body, now)


def lapse_notice(user: User, card: Card, now: datetime) -> QueuedNotice:
    """The card in which the desk is enrolled was retired."""
    body = (
        f"The card {card.name} ({card.pair} {card.direction}) was retired, and your consent ended "
        "with it. No signal of the engine reaches your desk until you enrol in the published "
        f"card.\n\n{page('desk')}"
    )
    notice = new_notice(
        user, NoticeKind.CONSENT, f"{card.name} was retired: enrol again", body, now
    )
    notice.priority = LAST
    return notice


def page(name: str, *args: str) -> str:
    """The address of a page."""
    return settings.BASE_URL + reverse(name, args=args)


def shown(at: datetime, user: User) -> str:
    """A time in the user's zone, or in UTC."""
    return at.astimezone(ZoneInfo(user.time_zone or "UTC")).strftime("%-d %B %Y, %H:%M %Z")


def _quiet(event: Event, user: User) -> Told:
    data = event.content["data"]
    since, due = (datetime.fromisoformat(data[name]) for name in ("since", "dueAt"))
    body = (
        f"No signal of your bot {data['name']} was accepted since {shown(since, user)}. One was "
        f"expected by {shown(due, user)}.\n\n"
        f"Look whether your chart's alert still runs and whether your relay is up.\n\n"
        f"{page('bot', data['botId'])}"
    )
    return NoticeKind.SILENCE, f"{data['name']} is silent", body


def _heard(event: Event, user: User) -> Told:
    data = event.content["data"]
    since, heard = (datetime.fromisoformat(data[name]) for name in ("since", "heardAt"))
    body = (
        f"A signal of your bot {data['name']} was accepted at {shown(heard, user)}. It had been "
        f"silent since {shown(since, user)}.\n\n{page('bot', data['botId'])}"
    )
    return NoticeKind.SILENCE, f"{data['name']} was heard again", body


def _secret(event: Event, user: User) -> Told | None:
    """A secret whose overlap ends later. One that ends soon was just told to its owner."""
    data, ends = event.content["data"], _ends_at(event)
    if ends - event.at <= ENDS_SOON:
        return None
    body = (
        f"The signing secret {data['hint']} ends at {shown(ends, user)}. From then on signals that "
        "are signed with it are refused. If a relay or a program still uses it, give it the new "
        f"one.\n\n{page('generate', data['owner'])}"
    )
    return NoticeKind.ENDINGS, "A signing secret ends soon", body


def _webhook(event: Event, user: User) -> Told:
    data = event.content["data"]
    webhook = webhook_to(Subscription.objects.filter(public_id=data["id"]).first())
    body = (
        f"Your {webhook} is disabled: {disabled_because(data['reason'])}\n\n"
        f"{page('event', event.id)}"
    )
    return NoticeKind.ENDINGS, f"The {webhook} is disabled", body


def webhook_to(row: Subscription | None) -> str:
    """What a notice calls a webhook. One that was removed meanwhile has no host any more."""
    return f"webhook to {row.host}" if row else "webhook"


def disabled_because(reason: str) -> str:
    """Why the service disabled a webhook, and what to do. The pages say the same."""
    parts = ("why_disabled", "resuming")
    texts = (render_to_string(f"webhooks/{part}.html", {"reason": reason}) for part in parts)
    return " ".join(text.strip() for text in texts)


def _ends_at(event: Event) -> datetime:
    return datetime.fromisoformat(event.content["data"]["endsAt"])


TEXTS: Mapping[str, Callable[[Event, User], Any]] = {
    Kind.AUTOMATION_QUIET: _quiet,
    Kind.AUTOMATION_HEARD: _heard,
    Kind.SECRET_ENDED: _secret,
    Kind.SUBSCRIPTION_DISABLED: _webhook,
}

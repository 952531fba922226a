"""What notices say. Those of an event are found by its kind."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta

from django.conf import settings
from django.template.loader import render_to_string
from django.urls import reverse

from desks.models import Automation, Card, QueuedNotice, User
from desks.models.notice import LAST, MAX_SUBJECT, NoticeKind
from events.control.lists import row_url
from events.json_schema import JsonObject
from events.kinds import Kind
from events.models import Event
from events.times import in_zone
from signals.reports.reasons import reason_of
from signals.webhooks.models import State, Subscription

ENDS_SOON = timedelta(days=1)


def new_notice(
    user: User, kind: NoticeKind, subject: str, body: str, due: datetime
) -> QueuedNotice:
    return QueuedNotice(user=user, kind=kind, subject=subject[:MAX_SUBJECT], body=body, due_at=due)


def refusal_notice(event: Event, user: User, bot: str) -> QueuedNotice:
    """The first refusal of a bot after a while without one."""
    reason = reason_of(event.content["data"], bot)
    body = f"{reason.sentence}\n\n{reason.advice}\n\n{page_url('event', event.id)}"
    subject = f"A signal of {bot} was refused"
    return new_notice(user, NoticeKind.REFUSALS, subject, body, event.at)


def refusals_notice(user: User, bot: Automation, count: int, now: datetime) -> QueuedNotice:
    """How many refusals were recorded since the last notice about the bot."""
    more = "refusal was" if count == 1 else "refusals were"
    body = f"{count} more {more} recorded since the last notice.\n\n{page_url('bot', bot.pk)}"
    subject = f"{count} more refusals of {bot}" if count > 1 else f"Another refusal of {bot}"
    return new_notice(user, NoticeKind.REFUSALS, subject, body, now)


def lapse_notice(user: User, card: Card, published: Card | None, now: datetime) -> QueuedNotice:
    """The card in which the desk is enrolled was retired. ``published`` is the one now."""
    subject = f"{card.name} was retired"
    what_next = "No card is published now. Your desk's page shows the next one: enrol in it then."
    if published:
        subject = f"{subject}: enrol again"
        what_next = (
            f"Now {published.name} ({published.pair} {published.direction}) is published. If you "
            "want its signals, enrol in it."
        )
    body = (
        f"The card {card.name} ({card.pair} {card.direction}) was retired, and your consent ended "
        "with it. No signal of the engine reaches your desk until you enrol in another card.\n\n"
        f"{what_next}\n\n{page_url('desk')}"
    )
    notice = new_notice(user, NoticeKind.CONSENT, subject, body, now)
    notice.priority = LAST
    return notice


def page_url(name: str, *args: str) -> str:
    """The address of a page."""
    return settings.BASE_URL + reverse(name, args=args)


def page_of_bot(event: Event, bot: Automation | None) -> str:
    """The address of the page of the event's bot. If that was removed, of the event."""
    if bot is None or bot.removed_at:
        return page_url("event", event.id)
    return page_url("bot", bot.pk)


def load_routes() -> None:
    """Loads the URL map, which takes longer than a transaction may idle."""
    reverse("desk")


def shown(at: datetime, user: User | None) -> str:
    """A time in the user's zone, or in UTC."""
    return in_zone(at, user.time_zone if user else "")


def _quiet(event: Event, user: User, bot: Automation | None) -> QueuedNotice:
    data = event.content["data"]
    since, due = (datetime.fromisoformat(data[name]) for name in ("since", "dueAt"))
    body = (
        f"No signal of your bot {data['name']} was accepted after {shown(since, user)}. One was "
        f"expected by {shown(due, user)}.\n\n"
        f"Look whether your chart's alert still runs and whether your relay is up.\n\n"
        f"{page_of_bot(event, bot)}"
    )
    return new_notice(user, NoticeKind.SILENCE, f"{data['name']} is silent", body, event.at)


def _heard(event: Event, user: User, bot: Automation | None) -> QueuedNotice:
    data = event.content["data"]
    since, heard = (datetime.fromisoformat(data[name]) for name in ("since", "heardAt"))
    body = (
        f"A signal of your bot {data['name']} was accepted at {shown(heard, user)}. Before that "
        f"none was accepted after {shown(since, user)}.\n\n{page_of_bot(event, bot)}"
    )
    return new_notice(user, NoticeKind.SILENCE, f"{data['name']} sends again", body, event.at)


def _secret(event: Event, user: User, bot: Automation | None) -> QueuedNotice | None:
    """A secret whose overlap ends later. Of one that ends soon its owner was just notified."""
    data = event.content["data"]
    ends = datetime.fromisoformat(data["endsAt"])
    if ends - event.at <= ENDS_SOON:
        return None
    body = (
        f"The signing secret {data['hint']} ends at {shown(ends, user)}. From then on signals that "
        "are signed with it are refused. If a relay or a program still uses it, give it the new "
        f"one.\n\n{page_url('generate', data['owner'])}"
    )
    subject = "A signing secret ends soon"
    notice = new_notice(user, NoticeKind.ENDINGS, subject, body, ends - ENDS_SOON)
    notice.about = data["id"]
    return notice


def disabled_because(reason: str) -> str:
    """Why the service disabled a webhook, and what to do. The pages say the same."""
    parts = ("why_disabled", "resuming")
    texts = (render_to_string(f"webhooks/{part}.html", {"reason": reason}) for part in parts)
    return " ".join(text.strip() for text in texts)


# By the kind of event: the notice for the owner of its desk, or None. The bot is the event's.
DESK_NOTICES: Mapping[str, Callable[[Event, User, Automation | None], QueuedNotice | None]] = {
    Kind.AUTOMATION_QUIET: _quiet,
    Kind.AUTOMATION_HEARD: _heard,
    Kind.SECRET_ENDED: _secret,
}


# --- What staff are notified of, and owners of webhooks -------------------------------------------

AFTER_RESTORE = (
    "The service was restored from a back-up. Events from after that back-up are lost. From now on "
    "your webhooks go on where they stood in the back-up: they may get events again, with another "
    "webhook-id. Events that they got shortly before may exist no more, and their positions may "
    "belong to other events. Compare what your endpoints stored with the log."
)


def staff_notices(subject: str, body: str, due: datetime) -> Iterator[QueuedNotice]:
    """A notice for each member of staff."""
    for user in User.objects.filter(is_staff=True, is_active=True):
        yield new_notice(user, NoticeKind.OPERATIONS, subject, body, due)


def webhook_notices(event: Event, user: User | None) -> Iterator[QueuedNotice]:
    """What happened to a webhook. ``user`` is its owner, or None if it is the platform's."""
    data = event.content["data"]
    row = Subscription.objects.filter(public_id=data["id"]).first()
    named = f"Your webhook {row.label}" if row else "Your webhook"
    said, more = TEXTS_OF_WEBHOOKS[event.kind](data, user)
    subject = f"{named} {said}"
    return _of_webhooks(user, subject, f"{subject}{more}", event.at, row)


def _disabled(data: JsonObject, user: User | None) -> tuple[str, str]:
    return "is disabled", f": {disabled_because(data['reason'])}"


def _failing(data: JsonObject, user: User | None) -> tuple[str, str]:
    since = shown(datetime.fromisoformat(data["since"]), user)
    if data["state"] == State.UNVERIFIED:
        return "is not verified", (
            f". Since {since} its URL has failed each test. A test needs an answer with a 2xx "
            "status and the proof that the endpoint knows the secret. The page of the webhook "
            "shows what was answered, and sample programs that answer correctly. Events wait "
            "meanwhile."
        )
    return "fails", (
        f". Since {since} no attempt to deliver succeeded. Nothing is lost: events wait, and we "
        "try again. The page of the webhook shows what the endpoint answered."
    )


def _working(data: JsonObject, user: User | None) -> tuple[str, str]:
    return "works again", ". Events that waited are sent in order."


# By the kind of event: what the subject says of the webhook, and how the text goes on.
TEXTS_OF_WEBHOOKS: Mapping[str, Callable[[JsonObject, User | None], tuple[str, str]]] = {
    Kind.SUBSCRIPTION_DISABLED: _disabled,
    Kind.SUBSCRIPTION_FAILING: _failing,
    Kind.SUBSCRIPTION_WORKING: _working,
}


def restore_notices(user: User | None, now: datetime) -> Iterator[QueuedNotice]:
    """The log was restored. ``user`` is an owner of webhooks, or None for those of the platform."""
    subject = "Your webhooks may repeat or miss events"
    return _of_webhooks(user, subject, AFTER_RESTORE, now, None)


def lost_key_notices(row: Subscription, now: datetime) -> Iterator[QueuedNotice]:
    """The service cannot decrypt the URL or the secret of a webhook any more."""
    subject = f"The webhook {row.label} needs its URL and a new secret"
    body = (
        f"Nothing is sent to your webhook {row.label}: the service cannot decrypt its URL or its "
        "secret any more. Enter the URL again, and replace the secret without an overlap. Nothing "
        "is lost: events wait."
    )
    return _of_webhooks(row.desk.user if row.desk else None, subject, body, now, row)


def _of_webhooks(
    user: User | None, subject: str, body: str, due: datetime, row: Subscription | None
) -> Iterator[QueuedNotice]:
    """For the owner of webhooks, or for staff if they are the platform's and have none.

    ``row`` is the one webhook that it is about; None for all, or if that one was removed.
    """
    if user is not None:
        link = page_url("webhook", row.public_id) if row else page_url("webhooks")
        yield new_notice(user, NoticeKind.ENDINGS, subject, f"{body}\n\n{link}", due)
        return
    subject = subject.replace("Your webhook", "The platform's webhook")
    body = body.replace("Your webhook", "The platform's webhook")
    body = body.replace("your webhook", "the platform's webhook")
    link = (
        settings.BASE_URL + row_url(row)
        if row
        else page_url("admin:signals_subscription_changelist")
    )
    yield from staff_notices(subject, f"{body}\n\n{link}", due)

"""What an event says to the operator, as sentences, and the events that a row's page tells."""

from typing import Any

from django.db.models import Model
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from desks.models import Card, Desk, User
from events.control.lists import add_related, add_section
from events.http.refusals import Refused
from events.kinds import Kind
from events.models import Event
from signals.reports.activity import webhook_of
from signals.reports.explanation import checks
from signals.reports.names import attach_names, bot_of
from tokens.models import SigningSecret, Token

MAX_LISTED = 20
MAX_ACTS = 5  # of one row: it is created and ended once, and a user is deactivated rarely
SENT = [Kind.SIGNAL_FILLED, Kind.SIGNAL_DRY_RUN, Kind.SIGNAL_RECORDED, Kind.SIGNAL_REFUSED]
ACTS_OF_USERS = [
    Kind.DESK_CREATED,
    Kind.DESK_DEACTIVATED,
    Kind.DESK_REACTIVATED,
    Kind.DESK_CLOSED,
]


def tell(event: Event) -> SafeString:
    """The event as sentences; of a refusal also the advice, and which check decided."""
    attach_names([event])
    code = event.content["data"].get("code")
    refusal = next((each for each in Refused.registry() if each.code == code), None)
    context = {**_context(event), "refusal": refusal, "checks": checks(code) if refusal else []}
    return render_to_string("control/story.html", context)


def tell_acts(row: Model) -> SafeString:
    """Who created and ended a row, with the times."""
    return _list(acts_on(row), "Nothing in the log.")


def tell_signals(credential: Token | SigningSecret) -> SafeString:
    """The latest signals and refusals of a token or a secret."""
    sent = Event.objects.filter(actor_id=credential.public_id, kind__in=SENT)
    return _list(list(sent.order_by("-position")[:MAX_LISTED]), "It has sent no signal.")


def acts_on(row: Any) -> list[Event]:
    """The events that created and ended the row, the newest first."""
    match row:
        case Card():
            acts = Event.objects.filter(pk__in=[row.opened, row.closed or row.opened])
        case Token():
            acts = _about(row.topic, [Kind.TOKEN_MINTED, Kind.TOKEN_REVOKED], row.public_id)
        case SigningSecret():
            topic = row.automation.desk.public_id if row.automation else None
            acts = _about(topic, [Kind.SECRET_GENERATED, Kind.SECRET_ENDED], row.public_id)
        case User():
            topic = Desk.objects.filter(user=row).values_list("public_id", flat=True).first()
            acts = Event.objects.filter(topic=topic or "", kind__in=ACTS_OF_USERS)
        case _:
            raise TypeError(f"{row!r} has no acts.")
    return list(acts.order_by("-position")[:MAX_ACTS])


def _about(topic: str | None, kinds: list[Kind], public_id: str) -> Any:
    """The events about a credential. Those of a desk, or of the platform, are few."""
    return Event.objects.filter(topic=topic, kind__in=kinds, content__data__id=public_id)


def _list(events: list[Event], nothing: str) -> SafeString:
    attach_names(events)
    lines = [_context(event) for event in events]
    return render_to_string("control/acts.html", {"lines": lines, "nothing": nothing})


def _context(event: Any) -> dict[str, object]:
    content = event.content_for(platform=True)
    return {
        "event": event,
        "data": content["data"],
        "signal": content["signal"],
        "desk": event.names.get(event.user_id),
        "actor": event.names.get(event.actor_id),
        "bot": event.names.get(bot_of(event)),
        "bot_id": bot_of(event),
        "webhook": event.names.get(webhook_of(event)),
        "label": Kind(event.kind).label,
        "sentence": (f"control/events/{event.kind}.html", "control/events/any.html"),
    }


for model in (Card, Token, SigningSecret, User):
    add_section(model, "Who did it", tell_acts)

for credential in (Token, SigningSecret):
    add_section(credential, "Its latest signals and refusals", tell_signals)
    add_related(credential, "events", Event)

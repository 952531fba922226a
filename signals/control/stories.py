"""What an event says to the operator, as sentences, and the events on the page of a row."""

from collections.abc import Callable, Iterable
from typing import Any

from django.db.models import Model, QuerySet
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from desks.models import Automation, Card, Desk, User
from events.control.lists import PageLink, add_related, add_section, row_url
from events.http.refusals import Refused
from events.kinds import GROUPS, Kind, label_of
from events.models import Event
from signals.reports.activity import webhook_of
from signals.reports.reasons import checks
from signals.webhooks.models import Subscription
from tokens.models import SigningSecret, Token

# --- Who or what is behind an id of the log -------------------------------------------------------


def _owner(desk: Desk) -> str:
    """The owner's address. An owner who closed the account has none: then the desk's id."""
    return desk.public_id if desk.user.closed_at else desk.user.email


def _secret(secret: SigningSecret) -> str:
    owner = secret.automation.name if secret.automation else secret.source.capitalize()
    return f"{owner} ({secret.hint})"


# By the prefix of an id: the rows, the column with the id, and how a row is called.
NAMED: dict[str, tuple[QuerySet[Any], str, Callable[[Any], str]]] = {
    "usr_": (Desk.objects.select_related("user"), "public_id", _owner),
    "stf_": (User.objects.all(), "staff_id", str),
    "tok_": (Token.objects.all(), "public_id", str),
    "sec_": (SigningSecret.objects.select_related("automation"), "public_id", _secret),
    "bot_": (Automation.objects.all(), "id", str),
    "card_": (Card.objects.all(), "id", str),
    "sub_": (Subscription.objects.all(), "public_id", lambda webhook: webhook.host),
}


def name_of(event: Event, named: str | None) -> PageLink | None:
    """The name and page of an id, for an event to which ``attach_names`` gave its names."""
    names: dict[str | None, PageLink] = event.names  # type: ignore[attr-defined]
    return names.get(named)


def attach_names(events: Iterable[Any]) -> None:
    """Gives each event ``names``: the names and pages of what it names, by id.

    Takes one query for each kind of id. An id without a row has no name.
    """
    events = list(events)
    ids = {
        each
        for event in events
        for each in (event.actor_id, event.topic, event.bot_id, webhook_of(event))
        if each
    }
    names: dict[str, PageLink] = {}
    for prefix, (rows, column, name) in NAMED.items():
        of_kind = [each for each in ids if each.startswith(prefix)]
        for row in rows.filter(**{f"{column}__in": of_kind}) if of_kind else ():
            names[getattr(row, column)] = PageLink(name(row), row_url(row))
    for event in events:
        event.names = names


# --- Events as sentences --------------------------------------------------------------------------

MAX_LISTED = 20
MAX_ACTS = 5  # of one row: it is created and ended once


def show_event(event: Event) -> SafeString:
    """The event as sentences; of a refusal also the advice, and which check decided."""
    attach_names([event])
    refusal = Refused.of(event.code)
    context = {
        "event": event,
        "sentence": _sentence(event),
        "refusal": refusal,
        "checks": checks(event.code) if refusal else [],
    }
    return render_to_string("control/story.html", context)


def show_acts(row: Model) -> SafeString:
    """Who created and ended a row, with the times."""
    acts = _acts_on(row).order_by("-position")[:MAX_ACTS]
    return list_events(acts, "Nothing in the log.")


def show_signals(credential: Token | SigningSecret) -> SafeString:
    """The latest signals and refusals of a token or a secret."""
    sent = Event.objects.filter(actor_id=credential.public_id, kind__in=GROUPS["signal.*"])
    return list_events(sent.order_by("-position")[:MAX_LISTED], "It has sent no signal.")


def _acts_on(row: Model) -> QuerySet[Event]:
    """The events that created and ended the row. Those of a desk, or of the platform, are few."""
    match row:
        case Card():
            return Event.objects.filter(pk__in=[row.opened, row.closed or row.opened])
        case Token():
            topic, kinds = row.topic, [Kind.TOKEN_MINTED, Kind.TOKEN_REVOKED]
        case SigningSecret():
            topic = row.automation.desk.public_id if row.automation else None
            kinds = [Kind.SECRET_GENERATED, Kind.SECRET_ENDED]
        case _:
            raise TypeError(f"{row!r} has no acts.")
    return Event.objects.filter(topic=topic, kind__in=kinds, content__data__id=row.public_id)


def list_events(events: Iterable[Event], nothing: str) -> SafeString:
    """The events as sentences, or what to say if there are none."""
    events = list(events)
    attach_names(events)
    lines = [(event, _sentence(event)) for event in events]
    return render_to_string("control/acts.html", {"lines": lines, "nothing": nothing})


def _sentence(event: Event) -> SafeString:
    """What happened, of an event to which ``attach_names`` gave its names.

    ``refusal`` is None if the event is none, or if only a later release knows its code.
    """
    content = event.content_for(platform=True)
    context = {
        "event": event,
        "data": content["data"],
        "signal": content["signal"],
        "desk": name_of(event, event.user_id),
        "actor": name_of(event, event.actor_id),
        "bot": name_of(event, event.bot_id),
        "webhook": name_of(event, webhook_of(event)),
        "label": label_of(event.kind),
        "refusal": Refused.of(event.code),
    }
    templates = [f"control/events/{event.kind}.html", "control/events/any.html"]
    return render_to_string(templates, context)


for model in (Card, Token, SigningSecret):
    add_section(model, "Who did it", show_acts)

for credential in (Token, SigningSecret):
    add_section(credential, "Its latest signals and refusals", show_signals)
    add_related(credential, "events", Event)

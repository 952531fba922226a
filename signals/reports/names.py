"""Who or what is behind an id of the log: its name, and its page in the control area."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from django.db.models import Model

from desks.models import Automation, Card, Desk, User
from events.control.lists import row_url
from events.models import Event
from signals.reports.activity import webhook_of
from signals.webhooks.models import Subscription
from tokens.models import SigningSecret, Token


class Named(NamedTuple):
    """The name of a row, and the URL of its page."""

    label: str
    url: str


Names = Mapping[str, Named]
Loader = Callable[[set[str]], Iterable[tuple[str, str, Model]]]


def names_of(ids: Iterable[str | None]) -> Names:
    """The names of these ids, with one query for each kind of id. Unknown ids have none."""
    asked = {each for each in ids if each}
    found = {}
    for prefix, load in LOADERS.items():
        of_kind = {each for each in asked if each.startswith(prefix)}
        for each, label, row in load(of_kind) if of_kind else ():
            found[each] = Named(label, row_url(row))
    return found


def ids_in(event: Event) -> list[str | None]:
    """The ids that a line about the event names: actor, desk or card, bot, and webhook."""
    return [event.actor_id, event.topic, bot_of(event), webhook_of(event)]


def bot_of(event: Event) -> str | None:
    """The id of the bot that the event is about, or None."""
    content = event.content_for(platform=True)
    data, signal = content["data"], content["signal"] or {}
    named = signal.get("botId") or data.get("botId") or data.get("owner")
    return named if named and named.startswith("bot_") else None


def _desks(ids: set[str]) -> Iterable[tuple[str, str, Model]]:
    for desk in Desk.objects.filter(public_id__in=ids).select_related("user"):
        yield desk.public_id, _owner(desk), desk


def _owner(desk: Desk) -> str:
    """The owner's address. An owner who closed the account has none: then the desk's id."""
    return desk.public_id if desk.user.closed_at else desk.user.email


def _staff(ids: set[str]) -> Iterable[tuple[str, str, Model]]:
    for user in User.objects.filter(staff_id__in=ids):
        yield str(user.staff_id), user.email, user


def _tokens(ids: set[str]) -> Iterable[tuple[str, str, Model]]:
    for token in Token.objects.filter(public_id__in=ids):
        yield token.public_id, str(token), token


def _secrets(ids: set[str]) -> Iterable[tuple[str, str, Model]]:
    for secret in SigningSecret.objects.filter(public_id__in=ids).select_related("automation"):
        owner = secret.automation.name if secret.automation else secret.source.capitalize()
        yield secret.public_id, f"{owner} ({secret.hint})", secret


def _bots(ids: set[str]) -> Iterable[tuple[str, str, Model]]:
    for bot in Automation.objects.filter(pk__in=ids):
        yield bot.pk, bot.name, bot


def _webhooks(ids: set[str]) -> Iterable[tuple[str, str, Model]]:
    for webhook in Subscription.objects.filter(public_id__in=ids):
        yield webhook.public_id, webhook.host, webhook


def _cards(ids: set[str]) -> Iterable[tuple[str, str, Model]]:
    for card in Card.objects.filter(pk__in=ids):
        yield card.pk, str(card), card


LOADERS: dict[str, Loader] = {
    "usr_": _desks,
    "stf_": _staff,
    "tok_": _tokens,
    "sec_": _secrets,
    "bot_": _bots,
    "card_": _cards,
    "sub_": _webhooks,
}


def attach_names(events: Iterable[Any]) -> None:
    """Gives each event ``names``, with what its line and its page name."""
    events = list(events)
    names = names_of(each for event in events for each in ids_in(event))
    for event in events:
        event.names = names

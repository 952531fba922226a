"""GET /api/v1: the catalog of paths and first steps (the customer's section 4)."""

from typing import Any

from django.http import HttpResponse
from django.urls import reverse
from rest_framework.request import Request

from desks.api.schemas import PublishedCard
from events.http.api_view import ApiView
from events.http.json_schema import STRING
from events.http.schemas import Field, Paper, Schema, operation
from signals.contract.document import HEADERS, published_card
from signals.intake.api.views import document_or_page
from signals.law.rules import LAW

# The method and the route of each operation, and what follows the route's path, by name.
PATHS = {
    "catalog": ("GET", "catalog", ""),
    "me": ("GET", "me", ""),
    "desks": ("GET", "desks", ""),
    "readyDesks": ("GET", "desks", "?ready=1"),
    "connectedDesks": ("GET", "desks", "?connected=1"),
    "desk": ("GET", "desks", "/{userId}"),
    "deploy": ("POST", "desks", "/{userId}/signal"),
    "events": ("GET", "events", ""),
    "tokens": ("GET", "tokens", ""),
    "token": ("POST", "tokens", ""),
    "revoke": ("DELETE", "tokens", ""),
    "signal": ("POST", "hook", ""),
    "signalContract": ("GET", "hook", ""),
    "bots": ("GET", "own-bots", ""),
    "findSignal": ("GET", "signals", ""),
    "readSignal": ("GET", "signals", "/{signalId}"),
    "subscriptions": ("GET", "subscriptions", ""),
}


class ForUsers(Schema):
    """First steps of a user."""

    mint = pull = webhook = Field(STRING)


class ForEngine(Schema):
    """First steps of an engine."""

    mint = pull = oneDesk = deploy = fanout = Field(STRING)


class Plug(Schema):
    """The interface for an engine."""

    publishedCard = PublishedCard(allow_null=True)
    pull = oneUser = push = events = Field(STRING)
    headers = Field({"type": "array", "items": STRING})
    note = Field(STRING)


class Catalog(Paper):
    """What there is, and how one begins."""

    law = Field(STRING)
    paths = Field(
        {"type": "object", "properties": dict.fromkeys(PATHS, STRING), "required": list(PATHS)},
        "A name for each thing that can be asked, with its method and path.",
    )
    auth = Field(STRING)
    forUsers = ForUsers()
    forEngine = ForEngine()
    plug = Plug()


class CatalogView(ApiView):
    """The catalog. Public. A browser gets the contract's page."""

    authentication_classes = []
    permission_classes = []

    @operation(
        "readCatalog",
        "Read the catalog",
        "What there is, and how one begins. Public.",
        tag="Catalog",
        response=Catalog,
    )
    def get(self, request: Request) -> HttpResponse:
        return document_or_page(request, catalog)


def catalog() -> dict[str, Any]:
    """The catalog object."""
    named = {
        name: f"{method} {reverse(route)}{rest}" for name, (method, route, rest) in PATHS.items()
    }
    return {
        "paper": True,
        "liveWrites": False,
        "law": LAW,
        "paths": named,
        "auth": "Authorization: Bearer <token>; on the signal hook a signature is taken as well.",
        "forUsers": {
            "mint": f'{named["token"]} {{"scope": "desk"}} while signed in; shown once.',
            "pull": f"{named['me']} with the desk token.",
            "webhook": f"{named['signal']}, signed with the secret of the bot's page.",
        },
        "forEngine": {
            "mint": "Staff mint a platform token in the control area; shown once.",
            "pull": f"{named['readyDesks']} with a platform token that may read. Later "
            "?changedSince=<asOf of the last answer> lists what changed.",
            "oneDesk": f"{named['desk']} with a platform token that may read.",
            "deploy": f"{named['deploy']} with a platform token that may write.",
            "fanout": f'{named["signal"]} with "fanout": true reaches every ready desk.',
        },
        "plug": {
            "publishedCard": published_card(),
            "pull": named["readyDesks"],
            "oneUser": named["desk"],
            "push": named["signal"],
            "events": named["events"],
            "headers": HEADERS,
            "note": "Repeat the published card's pair and direction with a new nonce each time.",
        },
    }

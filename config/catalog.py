"""GET /api/v1: paths and first steps (the customer's section 4)."""

from typing import Annotated, TypedDict

from django.conf import settings
from django.http import HttpResponse
from django.urls import reverse
from rest_framework.request import Request

from config.openapi.generator import document
from desks.pair_and_direction import PublishedCard
from events.http.api_view import ApiView
from events.http.schemas import PaperOnly, endpoint
from events.json_schema import STRING, JsonSchema
from signals.contract.document import HEADERS, published_card
from signals.intake.api import AS_A_PAGE, document_or_page
from signals.law.rules import LAW

# The customer's names: for each the method, the route, and what follows the route's path.
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
}


class ForUsers(TypedDict):
    """First steps of a user."""

    mint: str
    pull: str
    webhook: str


class ForEngine(TypedDict):
    """First steps of an engine."""

    mint: str
    pull: str
    oneDesk: str
    deploy: str
    fanout: str


class Plug(TypedDict):
    """The interface for an engine."""

    publishedCard: PublishedCard | None
    pull: str
    oneUser: str
    push: str
    events: str
    headers: list[str]
    note: str


class Catalog(PaperOnly):
    """What there is, and how one begins."""

    law: str
    paths: Annotated[
        dict[str, str],
        JsonSchema(properties=dict.fromkeys(PATHS, STRING), required=list(PATHS)),
        "A name for each thing that can be asked, with its method and path.",
    ]
    morePaths: Annotated[
        dict[str, str],
        JsonSchema(additionalProperties=STRING),
        "The other operations, each with its method and path, by its operationId in the schema.",
    ]
    schema: Annotated[str, JsonSchema(format="uri"), "The address of the OpenAPI document."]
    auth: str
    forUsers: ForUsers
    forEngine: ForEngine
    plug: Plug


class CatalogView(ApiView):
    """The catalog. Public. A browser gets the contract's page."""

    tag = "Catalog"
    authentication_classes = []
    permission_classes = []

    @endpoint("readCatalog", answer=Catalog, example=False, forms=AS_A_PAGE)
    def get(self, request: Request) -> HttpResponse:
        """Read the catalog.

        What there is, and how one begins.
        """
        return document_or_page(request, catalog)


def catalog() -> Catalog:
    """The catalog object."""
    named = {
        name: f"{method} {reverse(route)}{rest}" for name, (method, route, rest) in PATHS.items()
    }
    return {
        "paper": True,
        "liveWrites": False,
        "law": LAW,
        "paths": named,
        "morePaths": more_paths({path.partition("?")[0] for path in named.values()}),
        "schema": settings.BASE_URL + reverse("schema"),
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


def more_paths(named: set[str]) -> dict[str, str]:
    """Returns the operations of the OpenAPI document that are not among ``named``, by their ids."""
    operations = {
        operation["operationId"]: f"{method.upper()} {path}"
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    }
    return {name: path for name, path in operations.items() if path not in named}

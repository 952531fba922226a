"""GET /api/v1: the catalog of paths and first steps (the customer's section 4)."""

from typing import Any

from django.urls import reverse
from rest_framework.request import Request

from config.openapi.schemas import read_catalog
from events.http.api_view import ApiResponse, ApiView
from signals.api.views import PUBLIC
from signals.contract.document import HEADERS, published_card
from signals.law.rules import LAW


class CatalogView(ApiView):
    """The catalog. Public."""

    authentication_classes = []
    permission_classes = []

    @read_catalog
    def get(self, request: Request) -> ApiResponse:
        return ApiResponse(catalog(), headers=PUBLIC)


def paths() -> dict[str, str]:
    """Returns the method and path of each operation, by name."""
    desks, tokens, hook = reverse("desks"), reverse("tokens"), reverse("hook")
    return {
        "catalog": f"GET {reverse('catalog')}",
        "me": f"GET {reverse('me')}",
        "desks": f"GET {desks}",
        "readyDesks": f"GET {desks}?ready=1",
        "connectedDesks": f"GET {desks}?connected=1",
        "desk": f"GET {desks}/{{userId}}",
        "deploy": f"POST {desks}/{{userId}}/signal",
        "events": f"GET {reverse('events')}",
        "tokens": f"GET {tokens}",
        "token": f"POST {tokens}",
        "revoke": f"DELETE {tokens}",
        "signal": f"POST {hook}",
        "signalContract": f"GET {hook}",
    }


def catalog() -> dict[str, Any]:
    """The catalog object."""
    named = paths()
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
            "pull": f"{named['readyDesks']} with a platform token that may read.",
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

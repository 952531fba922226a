"""The contract page: what a sender needs to know, with samples that are accepted as they stand."""

from typing import Any

from django.conf import settings
from django.urls import reverse

from desks.models import Card
from events.refusals import Refused
from signals.law import LAW
from signals.shapes import ACTION, TRACE, Mode
from tokens import signing
from tokens.models import Source

HEADERS = ["Authorization", signing.TIMESTAMP_HEADER, signing.SIGNATURE_HEADER]

# Written in place of what only the sender knows.
BOT_ID, USER_ID, NONCE = "<botId>", "<userId>", "<nonce>"
ACTION_ID, TRACE_ID = f"{ACTION}<nonce>", f"{TRACE}<trace>"

NOTES = {
    "tv": "One automation, signed with its own secret. Pair and direction repeat its election.",
    "fanout": "Every desk that is ready: one signal fills every matching paper election.",
    "oneDesk": "One desk by a named platform, with a write token. The desk must be ready.",
    "oneUser": "A fan-out that is restricted to one desk.",
    "floor": "The deploy on the hook: a write token, or the Floor secret's signature.",
    "nox": "Nox: action_id is the nonce; mode draft, dry_run or paper; a write token, or the Nox "
    "secret's signature.",
}

VECTOR_SECRET = "svc_sign_" + 43 * "0" + "EXMPLE"
VECTOR_TIMESTAMP = 1763630000
VECTOR_BODY = '{"source":"floor","nonce":"n-1"}'


def published_card() -> dict[str, str] | None:
    """The published card as the public pages show it, null while there is none."""
    card = Card.objects.published().first()
    return card.as_json() if card else None


def contract() -> dict[str, Any]:
    """The contract object (the customer's section 4, contract section 4)."""
    card = published_card()
    path = reverse("hook")
    return {
        "paper": True,
        "liveWrites": False,
        "path": path,
        "url": settings.BASE_URL + path,
        "headers": HEADERS,
        "law": LAW,
        **_samples(path, card),
        "publishedCard": card,
        "signing": _signing(),
        "refusals": [
            {
                "code": refusal.code,
                "status": refusal.status,
                "title": refusal.title,
                "detail": refusal.detail,
            }
            for refusal in Refused.registry()
        ],
    }


def bodies(elected: dict[str, str]) -> dict[str, dict[str, Any]]:
    """The sample bodies by their names in the contract, repeating this pair and direction."""
    common = {**elected, "nonce": NONCE, "elected": True}
    floor = {**common, "source": Source.FLOOR.value}
    fanout = {"fanout": True, **floor}
    return {
        "tv": {"botId": BOT_ID, **common, "source": Source.TRADINGVIEW.value},
        "fanout": fanout,
        "oneDesk": {**floor, "mode": Mode.PAPER.value},
        "oneUser": {"userId": USER_ID, **fanout},
        "floor": {"userId": USER_ID, **floor, "mode": Mode.PAPER.value},
        "nox": {
            "fanout": True,
            "action_id": ACTION_ID,
            "trace_id": TRACE_ID,
            **elected,
            "elected": True,
            "source": Source.NOX.value,
            "mode": Mode.PAPER.value,
            "size_quote": None,
            "rationale": "Why, in plain text.",
            "decision_ref": None,
        },
    }


def _samples(path: str, card: dict[str, str] | None) -> dict[str, dict[str, Any]]:
    elected = {
        "pair": card["pair"] if card else "<BASE>/<QUOTE>",
        "direction": card["direction"] if card else "long",
    }
    paths = {"oneDesk": f"{reverse('desks')}/{{userId}}/signal"}
    return {
        name: {"note": NOTES[name], "path": paths.get(name, path), "body": body}
        for name, body in bodies(elected).items()
    }


def _signing() -> dict[str, Any]:
    """How to sign, with one worked example to check an implementation against."""
    return {
        "algorithm": "HMAC-SHA256",
        "key": "the bytes of the secret's text as it was shown",
        "message": f"{signing.TIMESTAMP_HEADER} + '.' + the raw body bytes",
        "signature": f"{signing.VERSION}= + lower-case hex; at most {signing.MOST_SIGNATURES}, "
        "separated by commas, of which one must verify",
        "timestamp": "Unix time in exactly 10 digits",
        "toleranceSeconds": settings.TIMESTAMP_TOLERANCE,
        "vector": {
            "secret": VECTOR_SECRET,
            "timestamp": str(VECTOR_TIMESTAMP),
            "body": VECTOR_BODY,
            "signature": signing.sign(VECTOR_SECRET, VECTOR_TIMESTAMP, VECTOR_BODY.encode()),
        },
    }

"""The contract object: what a sender needs to know, with samples that work without changes."""

from typing import Annotated, TypedDict

from django.conf import settings
from django.urls import reverse

from desks.models import Card
from desks.pair_and_direction import PairAndDirection, PublishedCard
from events.http.refusals import Refused
from events.http.schemas import PaperOnly
from events.json_schema import JsonObject, JsonSchema
from signals.law.rules import LAW
from signals.law.signal_body import ACTION, TRACE, Mode
from tokens.choices import Source
from tokens.crypto import signing

HEADERS = ["Authorization", signing.TIMESTAMP_HEADER, signing.SIGNATURE_HEADER]

# Placeholders for values that only the sender knows.
BOT_ID, USER_ID, NONCE, TRACED = "<botId>", "<userId>", "<nonce>", "<trace>"
ANY_PAIR = "<BASE>/<QUOTE>"

# What each sample is, and what it needs to be accepted, beside its ids and a new nonce.
NOTES = {
    "tv": "A signal from one bot. It needs the bot's own signature, and a bot that has "
    "elected this pair and direction: send those that your bot has elected.",
    "fanout": "A signal to every ready desk. Fills every matching paper election. It needs a write "
    "token or the Floor secret's signature, and the published card's pair and direction.",
    "oneDesk": "A deploy to one desk. It needs a write token, and a desk that is ready: one that "
    "is enrolled in the published card, whose pair and direction it repeats.",
    "oneUser": "A fan-out that is restricted to one desk. It needs a write token or the Floor "
    "secret's signature, and a desk that is ready.",
    "floor": "A deploy to one desk on the hook. It needs a write token or the Floor secret's "
    "signature, and a desk that is ready.",
    "nox": "A signal from Nox. It needs a write token or the Nox secret's signature, and the "
    "published card's pair and direction. The action_id is the nonce. The mode is draft, dry_run "
    "or paper.",
}

VECTOR_SECRET = "svc_sign_" + 43 * "0" + "EXMPLE"
VECTOR_TIMESTAMP = 1763630000
VECTOR_BODY = '{"source":"floor","nonce":"n-1"}'


class Sample(TypedDict):
    """A sample body. ``note`` says what it needs to be accepted."""

    note: str
    path: str
    body: JsonObject


class Vector(TypedDict):
    """A test vector, to check an implementation against."""

    secret: str
    timestamp: str
    body: str
    signature: str


class Signing(TypedDict):
    """How to sign."""

    algorithm: str
    key: str
    message: str
    signature: str
    timestamp: str
    toleranceSeconds: Annotated[int, JsonSchema(minimum=1)]
    vector: Vector


class RefusalMeaning(TypedDict):
    """The code of a refusal, and what it means."""

    code: str
    status: int
    title: str
    detail: str


class Contract(PaperOnly):
    """Everything a sender needs to know, with a sample of each shape."""

    tv: Sample
    fanout: Sample
    oneDesk: Sample
    oneUser: Sample
    floor: Sample
    nox: Sample
    path: str
    url: Annotated[str, JsonSchema(format="uri")]
    headers: list[str]
    law: str
    publishedCard: PublishedCard | None
    signing: Signing
    refusals: list[RefusalMeaning]


def published_card() -> PublishedCard | None:
    """Returns the published card as the public pages show it, None if no card is published."""
    card = Card.objects.published().first()
    return card.to_dict() if card else None


def contract() -> Contract:
    """Returns the contract object (the customer's section 4, contract section 4)."""
    card = published_card()
    path = reverse("hook")
    elected: PairAndDirection = {
        "pair": card["pair"] if card else ANY_PAIR,
        "direction": card["direction"] if card else "long",
    }
    named = bodies(elected)

    def sample(name: str, path: str = path) -> Sample:
        return {"note": NOTES[name], "path": path, "body": named[name]}

    return {
        "paper": True,
        "liveWrites": False,
        "path": path,
        "url": settings.BASE_URL + path,
        "headers": HEADERS,
        "law": LAW,
        "tv": sample("tv"),
        "fanout": sample("fanout"),
        "oneDesk": sample("oneDesk", f"{reverse('desks')}/{{userId}}/signal"),
        "oneUser": sample("oneUser"),
        "floor": sample("floor"),
        "nox": sample("nox"),
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


def bodies(
    elected: PairAndDirection,
    *,
    nonce: str = NONCE,
    traced: str = TRACED,
    bot_id: str = BOT_ID,
    user_id: str = USER_ID,
) -> dict[str, JsonObject]:
    """Returns the sample bodies by name, with the elected pair and direction."""
    common = {**elected, "nonce": nonce, "elected": True}
    floor = {**common, "source": Source.FLOOR.value}
    fanout = {"fanout": True, **floor}
    return {
        "tv": {"botId": bot_id, **common, "source": Source.TRADINGVIEW.value},
        "fanout": fanout,
        "oneDesk": {**floor, "mode": Mode.PAPER.value},
        "oneUser": {"userId": user_id, **fanout},
        "floor": {"userId": user_id, **floor, "mode": Mode.PAPER.value},
        "nox": {
            "fanout": True,
            "action_id": f"{ACTION}{nonce}",
            "trace_id": f"{TRACE}{traced}",
            **elected,
            "elected": True,
            "source": Source.NOX.value,
            "mode": Mode.PAPER.value,
            "size_quote": None,
            "rationale": "Why, in plain text.",
            "decision_ref": None,
        },
    }


def _signing() -> Signing:
    """Returns how to sign, with a test vector for implementations."""
    return {
        "algorithm": "HMAC-SHA256",
        "key": "the bytes of the secret's text, exactly as shown",
        "message": f"{signing.TIMESTAMP_HEADER} + '.' + the raw body bytes",
        "signature": f"{signing.VERSION}= + lower-case hex; at most {signing.MAX_SIGNATURES} "
        "signatures, separated by commas, one of which must match",
        "timestamp": "Unix time in exactly 10 digits",
        "toleranceSeconds": settings.TIMESTAMP_TOLERANCE,
        "vector": {
            "secret": VECTOR_SECRET,
            "timestamp": str(VECTOR_TIMESTAMP),
            "body": VECTOR_BODY,
            "signature": signing.sign(VECTOR_SECRET, VECTOR_TIMESTAMP, VECTOR_BODY.encode()),
        },
    }

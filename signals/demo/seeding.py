"""Seeds a database for a demonstration or a measurement (contract, section 9).

It uses the same actions as the rest of the service, in bulk for many desks. So the database is the
same as if people had used the service.
"""

import base64
import secrets
from collections.abc import Callable, Iterator, Sequence

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.mfa.utils import encrypt
from django.conf import settings
from django.contrib.auth.hashers import make_password

from desks import actions as desks
from desks.models import Automation, Card, Desk, User
from desks.pair_and_direction import Direction
from events import log
from events.actors import SYSTEM
from events.json_schema import JsonObject
from tokens import actions as tokens
from tokens.choices import Source
from tokens.models.token import READ, WRITE

VENUE = "Kraken"
CARD = {"name": "Morning trend", "pair": "BTC/USDT", "direction": Direction.LONG}
AUTOMATION = {"pair": "ETH/USDT", "direction": Direction.LONG}

DESKS_WITH_A_TOKEN = 10
PASSWORD_BYTES = 15
TOTP_BYTES = 20  # as RFC 4226 recommends
# A turn holds the log's lock. This many desks take well under 0.1 s, so that neither a running
# service nor the seeding itself runs into the lock's timeout.
DESKS_PER_TURN = 200

# Called with the number of desks created since the last call.
Progress = Callable[[int], object]


def seed(*, ready: int, idle: int, nox: bool, progress: Progress) -> JsonObject:
    """Fills the database and returns the JSON that the contract defines in section 9.

    ``ready`` is at least 1, because the first desk belongs to ``user``.
    """
    tag = secrets.token_hex(3) if User.objects.exists() else ""
    admin, as_admin = _account("admin", tag, staff=True)
    user, as_user = _account("user", tag)
    card = desks.publish_card(actor=SYSTEM, **CARD)
    (first,) = desks.open_desks(users=[user], actor=SYSTEM, card=card, venue=VENUE)
    progress(1)
    shown = [first]
    for made in _bulk(ready - 1, idle, tag, card, progress):
        shown += made[: DESKS_WITH_A_TOKEN - len(shown)]
    return {
        "card": card.to_dict(),
        "admin": {**as_admin, "totpSecret": _second_factor(admin)},
        "user": as_user,
        **_shared_credentials(nox),
        "desks": [
            {
                "userId": desk.public_id,
                "deskToken": tokens.mint_desk_token(desk=desk, actor=SYSTEM)[0],
            }
            for desk in shown
        ],
        "automation": _automation(first),
    }


def _account(name: str, tag: str, *, staff: bool = False) -> tuple[User, dict[str, str]]:
    """Creates a user who can sign in. Returns it, and the address and password."""
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    make = User.objects.create_superuser if staff else User.objects.create_user
    user = make(_address(name, tag), password)
    _verified(user).save()
    return user, {"email": user.email, "password": password}


def _address(name: str, tag: str) -> str:
    """An email address that no earlier seeding used."""
    return f"{name}-{tag}@example.com" if tag else f"{name}@example.com"


def _verified(user: User) -> EmailAddress:
    return EmailAddress(user=user, email=user.email, verified=True, primary=True)


def _second_factor(user: User) -> str | None:
    """Adds a TOTP authenticator and returns its base32 secret; None if staff need none."""
    if not settings.REQUIRE_STAFF_MFA:
        return None
    secret = base64.b32encode(secrets.token_bytes(TOTP_BYTES)).decode()
    data = {"secret": encrypt(secret)}
    Authenticator.objects.create(user=user, type=Authenticator.Type.TOTP, data=data)
    return secret


def _bulk(
    ready: int, idle: int, tag: str, card: Card, progress: Progress
) -> Iterator[Sequence[Desk]]:
    """Creates the other desks in batches, one turn at the log each. Yields those that are ready."""
    for name, count, enrols_in in (("desk", ready, card), ("idle", idle, None)):
        for start in range(0, count, DESKS_PER_TURN):
            numbers = range(start, min(start + DESKS_PER_TURN, count))
            with log.turn(actor=SYSTEM):
                users = _users(name, numbers, tag)
                made = desks.open_desks(users=users, actor=SYSTEM, card=enrols_in, venue=VENUE)
            progress(len(numbers))
            if enrols_in:
                yield made


def _users(name: str, numbers: range, tag: str) -> list[User]:
    """Creates verified users who cannot sign in, because hashing a million passwords takes days."""
    password = make_password(None)
    users = User.objects.bulk_create(
        User(email=_address(f"{name}-{number + 1}", tag), password=password) for number in numbers
    )
    EmailAddress.objects.bulk_create(_verified(user) for user in users)
    return users


def _shared_credentials(nox: bool) -> dict[str, str]:
    both, _ = tokens.mint_platform_token(name="Engine", scopes=[READ, WRITE], actor=SYSTEM)
    read, _ = tokens.mint_platform_token(name="Reader", scopes=[READ], actor=SYSTEM)
    floor, _ = tokens.generate_secret(source=Source.FLOOR, actor=SYSTEM)
    made = {"platformToken": both, "readToken": read, "floorSecret": floor}
    if nox:
        made["noxSecret"], _ = tokens.generate_secret(source=Source.NOX, actor=SYSTEM)
    return made


def _automation(desk: Desk) -> dict[str, str]:
    automation: Automation = desks.add_automation(desk=desk, name="Chart alerts", actor=SYSTEM)
    desks.elect(automation=automation, actor=SYSTEM, **AUTOMATION)
    secret, _ = tokens.generate_secret(
        source=Source.TRADINGVIEW, automation=automation, actor=SYSTEM
    )
    return {"botId": automation.pk, "secret": secret, **AUTOMATION}

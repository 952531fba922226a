"""What a demonstration or a measurement stands on (contract, section 9).

Made through the same actions as everything else, and the many desks through their bulk form, so
that the database is exactly as if people had made it.
"""

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from allauth.account.models import EmailAddress
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.conf import settings
from django.contrib.auth.hashers import make_password

from desks import actions as desks
from desks import bulk
from desks.models import Automation, Card, Desk, User
from desks.models.card import Direction
from events import log
from tokens import actions as tokens
from tokens.models import Source
from tokens.models.token import READ, WRITE

VENUE = "Kraken"
CARD = {"name": "Morning trend", "pair": "BTC/USDT", "direction": Direction.LONG}
AUTOMATION = {"pair": "ETH/USDT", "direction": Direction.LONG}

DESKS_WITH_A_TOKEN = 10
PASSWORD_BYTES = 15
# A turn holds the log's lock: so many desks take well under a tenth of a second, so that a service
# that runs beside the seeding stays patient, and PostgreSQL with the seeding on a busy machine.
DESKS_A_TURN = 200

# Told how many desks there are by now.
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Account:
    """Somebody who can sign in, and with what."""

    user: User
    password: str

    def as_json(self) -> dict[str, str]:
        return {"email": self.user.email, "password": self.password}


def seed(*, ready: int, idle: int, nox: bool, progress: Progress) -> dict[str, Any]:
    """Fills the database and returns what the contract's section 9 prints.

    ``ready`` is at least 1, since the first desk is the ``user``'s.
    """
    tag = secrets.token_hex(3) if User.objects.exists() else ""
    admin, user = _account("admin", tag, staff=True), _account("user", tag)
    card = desks.publish_card(**CARD)
    first = _first_desk(user.user, card)
    progress(1)
    shown = [first]
    for made in _bulk(ready - 1, idle, tag, card, progress):
        shown += made[: DESKS_WITH_A_TOKEN - len(shown)]
    return {
        "card": card.as_json(),
        "admin": {**admin.as_json(), "totpSecret": _second_factor(admin.user)},
        "user": user.as_json(),
        **_shared_credentials(nox),
        "desks": [
            {"userId": desk.public_id, "deskToken": tokens.mint_desk_token(desk=desk)[0]}
            for desk in shown
        ],
        "automation": _automation(first),
    }


def _account(name: str, tag: str, *, staff: bool = False) -> Account:
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    make = User.objects.create_superuser if staff else User.objects.create_user
    user = make(_address(name, tag), password)
    _verified(user).save()
    return Account(user, password)


def _address(name: str, tag: str) -> str:
    """An address that no seeding before this one has given away."""
    return f"{name}-{tag}@example.com" if tag else f"{name}@example.com"


def _verified(user: User) -> EmailAddress:
    return EmailAddress(user=user, email=user.email, verified=True, primary=True)


def _second_factor(user: User) -> str | None:
    """The base32 secret of a new authenticator, null where the staff needs none."""
    if not settings.REQUIRE_STAFF_MFA:
        return None
    secret: str = generate_totp_secret()
    TOTP.activate(user, secret)
    return secret


def _first_desk(user: User, card: Card) -> Desk:
    desk = desks.open_desk(user=user)
    assert desk is not None  # only staff have none
    desks.connect(desk=desk, venue=VENUE)
    desks.enrol(desk=desk, card_id=card.pk)
    return desk


def _bulk(
    ready: int, idle: int, tag: str, card: Card, progress: Progress
) -> Iterator[Sequence[Desk]]:
    """The other desks, one turn at the log for each batch; yields the batches of ready ones."""
    for numbers in _batches(ready):
        with log.turn():
            made = bulk.open_ready_desks(users=_users("desk", numbers, tag), venue=VENUE, card=card)
        yield made
        progress(1 + numbers.stop)
    for numbers in _batches(idle):
        with log.turn():
            bulk.open_desks(users=_users("idle", numbers, tag))
        progress(1 + ready + numbers.stop)


def _batches(count: int) -> Iterator[range]:
    for start in range(0, count, DESKS_A_TURN):
        yield range(start, min(start + DESKS_A_TURN, count))


def _users(name: str, numbers: range, tag: str) -> list[User]:
    """Verified users who cannot sign in: hashing a million passwords would take days."""
    password = make_password(None)
    users = User.objects.bulk_create(
        User(email=_address(f"{name}-{number + 1}", tag), password=password) for number in numbers
    )
    EmailAddress.objects.bulk_create(_verified(user) for user in users)
    return users


def _shared_credentials(nox: bool) -> dict[str, str]:
    both, _ = tokens.mint_platform_token(name="Engine", scopes=[READ, WRITE])
    read, _ = tokens.mint_platform_token(name="Reader", scopes=[READ])
    floor, _ = tokens.generate_secret(source=Source.FLOOR)
    made = {"platformToken": both, "readToken": read, "floorSecret": floor}
    if nox:
        made["noxSecret"], _ = tokens.generate_secret(source=Source.NOX)
    return made


def _automation(desk: Desk) -> dict[str, str]:
    automation: Automation = desks.add_automation(desk=desk, name="Chart alerts")
    desks.elect(automation=automation, **AUTOMATION)
    secret, _ = tokens.generate_secret(source=Source.TRADINGVIEW, automation=automation)
    return {"botId": automation.pk, "secret": secret, **AUTOMATION}

"""The cast: what a test needs to stand on stage, made through the product's own actions."""

from dataclasses import dataclass

import factory

from desks import actions as desks
from desks.models import Automation, Card, Desk, User
from tokens import actions as tokens
from tokens.models import Source

PAIR, DIRECTION = "BTC/USDT", "long"
PASSWORD = "correct horse battery staple"


class UserFactory(factory.django.DjangoModelFactory):
    """A signed-up user; whose address is not verified yet, so without a desk."""

    class Meta:
        model = User
        skip_postgeneration_save = True

    email = factory.Sequence(lambda n: f"trader-{n}@example.com")

    @classmethod
    def _create(cls, model_class, *args, **kwargs):
        return User.objects.create_user(password=PASSWORD, **kwargs)


@dataclass
class Bot:
    """An automation with an election, and its secret's text."""

    automation: Automation
    secret: str

    @property
    def id(self) -> str:
        return self.automation.pk


def a_staff_user(email: str = "staff@example.com") -> User:
    return User.objects.create_superuser(email, PASSWORD)


def a_desk() -> Desk:
    """A desk that is not connected."""
    desk = desks.open_desk(user=UserFactory())
    assert desk is not None
    return desk


def a_connected_desk() -> Desk:
    desk = a_desk()
    desks.connect(desk=desk, venue="Kraken")
    return desk


def a_ready_desk(card: Card) -> Desk:
    desk = a_connected_desk()
    desks.enrol(desk=desk, card_id=card.pk)
    return desk


def a_card(name: str = "Morning", pair: str = PAIR, direction: str = DIRECTION) -> Card:
    return desks.publish_card(name=name, pair=pair, direction=direction)


def a_bot(desk: Desk, pair: str = "ETH/USDT", direction: str = "short") -> Bot:
    automation = desks.add_automation(desk=desk, name="Chart")
    desks.elect(automation=automation, pair=pair, direction=direction)
    secret, _ = tokens.generate_secret(source=Source.TRADINGVIEW, automation=automation)
    return Bot(automation, secret)


def a_desk_token(desk: Desk) -> str:
    return tokens.mint_desk_token(desk=desk)[0]


def a_platform_token(*scopes: str) -> str:
    return tokens.mint_platform_token(name="Engine", scopes=list(scopes or ("read", "write")))[0]


def a_shared_secret(source: Source = Source.FLOOR) -> str:
    return tokens.generate_secret(source=source)[0]

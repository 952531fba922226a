"""Factories: users, desks, cards, bots and credentials, made with the product's own actions."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from django.utils import timezone
from factory.declarations import Sequence
from factory.django import DjangoModelFactory

from desks import actions as desks
from desks.expectation_rules import Expectation
from desks.expectations import change_automation
from desks.models import Automation, Card, Desk, User
from events import log
from events.actors import SYSTEM, Actor
from events.kinds import Kind
from events.models import Event, Head
from tokens import actions as tokens
from tokens.choices import Source

PAIR, DIRECTION = "BTC/USDT", "long"
PASSWORD = "correct horse battery staple"
SECOND = timedelta(seconds=1)


class UserFactory(DjangoModelFactory[User]):
    """A user without a verified e-mail address and without a desk."""

    class Meta:
        model = User
        skip_postgeneration_save = True

    email = Sequence(lambda n: f"trader-{n}@example.com")

    @classmethod
    def _create(cls, model_class, *args, **kwargs):
        return User.objects.create_user(password=PASSWORD, **kwargs)


@dataclass
class Bot:
    """An automation with an election, and its signing secret."""

    automation: Automation
    secret: str

    @property
    def id(self) -> str:
        return self.automation.pk


def a_staff_user(email: str = "staff@example.com") -> User:
    """A staff user, who has no desk."""
    return User.objects.create_superuser(email, PASSWORD)


def a_desk() -> Desk:
    """A desk that is not connected."""
    desk = desks.open_desk(desk=Desk(user=UserFactory.create()), actor=SYSTEM)
    assert desk is not None
    return desk


def a_connected_desk() -> Desk:
    """A connected desk without an election."""
    desk = a_desk()
    desks.connect(desk=desk, venue="Kraken", actor=SYSTEM)
    return desk


def a_ready_desk(card: Card) -> Desk:
    """A connected desk that is enrolled in the card.

    Made in one turn, which takes half the time of three. ``tests/signals/demo/test_seed.py``
    compares the two.
    """
    [desk] = desks.open_desks(users=[UserFactory.create()], venue="Kraken", card=card, actor=SYSTEM)
    return desk


def a_card(name: str = "Morning", pair: str = PAIR, direction: str = DIRECTION) -> Card:
    """Publishes a card, which retires the published one."""
    return desks.publish_card(name=name, pair=pair, direction=direction, actor=SYSTEM)


def enrol_in_many(desk: Desk, cards: int = 20) -> Iterator[Card]:
    """Publishes cards, and enrols the desk in each. An election lapses when the next one begins."""
    for number in range(cards):
        card = a_card(f"Card {number}")
        desks.enrol(desk=desk, card_id=card.pk, actor=SYSTEM)
        yield card


def a_bot(desk: Desk, pair: str = "ETH/USDT", direction: str = "short") -> Bot:
    """An automation of the desk, with this election and a signing secret."""
    automation = desks.add_automation(desk=desk, name="Chart", actor=SYSTEM)
    desks.elect(automation=automation, pair=pair, direction=direction, actor=SYSTEM)
    secret, _ = tokens.generate_secret(
        source=Source.TRADINGVIEW, automation=automation, actor=SYSTEM
    )
    return Bot(automation, secret)


def expecting(every: timedelta | None, grace: timedelta) -> Expectation:
    """That a bot sends so often, or on each trading day."""
    return Expectation(None if every is None else every // SECOND, grace // SECOND)


def expect(
    bot: Bot, expectation: Expectation | None = None, max_age: timedelta | None = None
) -> None:
    """Says how often the bot is expected to send, and how old its signals may be."""
    change_automation(
        automation=bot.automation,
        expectation=expectation,
        max_age=None if max_age is None else max_age // SECOND,
        actor=SYSTEM,
    )


def a_desk_token(desk: Desk) -> str:
    """A new desk token, which replaces the desk's token."""
    return tokens.mint_desk_token(desk=desk, actor=SYSTEM)[0]


def a_platform_token(*scopes: str) -> str:
    """A new platform token with these scopes; ``read`` and ``write`` by default."""
    return tokens.mint_platform_token(
        name="Engine", scopes=list(scopes or ("read", "write")), actor=SYSTEM
    )[0]


def a_shared_secret(source: Source = Source.FLOOR) -> str:
    """A new signing secret of the Floor or of Nox."""
    return tokens.generate_secret(source=source, actor=SYSTEM)[0]


def an_event_of_a_later_release(desk: Desk) -> Event:
    """An event of the desk, of a kind and by an actor that this release does not know."""
    with log.turn(actor=Actor("partner", "prt_1")) as turn:
        kind = cast(Kind, "desk.renamed")
        return turn.append(kind, topic=desk.public_id, data={"name": "Left"})


def move_the_log_back(*, days: int) -> None:
    """Moves every event, and the log's clock, to that many days ago, so that tests can follow."""
    at = timezone.now() - timedelta(days=days)
    Event.objects.update(at=at)
    Head.objects.update(at=at)

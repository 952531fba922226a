"""What would become of a signal that came now, told without anything happening."""

import pytest

from events.models import Event
from events.refusals import DirectionMismatch
from signals import intake
from signals.models import Outcome, Signal
from signals.received import Received
from tests import factories
from tests.signals import bodies
from tokens.models import Token

pytestmark = pytest.mark.django_db


@pytest.fixture
def engine(desk, stranger) -> Token:
    """The platform's token, beside two ready desks."""
    factories.a_platform_token()
    return Token.objects.get()


def test_the_outcome_and_how_many_desks_it_matches_are_told_and_nothing_happens(desk, engine):
    before = Event.objects.count()
    found = [
        intake.foresee(Received(body, engine))
        for body in (
            bodies.fanout(),
            bodies.floor(desk),
            bodies.nox(mode="dry_run"),
            bodies.nox(mode="draft"),
        )
    ]
    assert found == [
        (Outcome.FILLED, 2),
        (Outcome.FILLED, 1),
        (Outcome.DRY_RUN, 2),
        (Outcome.RECORDED, 0),
    ]
    assert (Event.objects.count(), Signal.objects.count()) == (before, 0)


def test_what_would_be_refused_is_refused_and_not_recorded(engine):
    before = Event.objects.count()
    with pytest.raises(DirectionMismatch):
        intake.foresee(Received(bodies.fanout(direction="short"), engine))
    assert Event.objects.count() == before

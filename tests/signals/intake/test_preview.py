"""The check of a signal: its outcome, without recording it."""

import pytest

from events.models import Event
from signals.intake import receive
from signals.intake.incoming_signal import IncomingSignal
from signals.intake.models import Outcome, Signal
from signals.law.refusals import DirectionMismatch
from tests import factories
from tests.signals import bodies
from tokens.models import Token

pytestmark = pytest.mark.django_db


@pytest.fixture
def engine(desk, stranger) -> Token:
    """The platform's token, with two ready desks."""
    factories.a_platform_token()
    return Token.objects.get()


def test_a_check_returns_the_outcome_and_records_nothing(desk, engine):
    before = Event.objects.count()
    found = [
        receive.check(IncomingSignal(body, engine))
        for body in (
            bodies.fanout(),
            bodies.floor(desk),
            bodies.nox(mode="dry_run"),
            bodies.nox(mode="draft"),
        )
    ]
    assert [(checked["wouldBe"], checked["matched"]) for checked in found] == [
        (Outcome.FILLED, 2),
        (Outcome.FILLED, 1),
        (Outcome.DRY_RUN, 2),
        (Outcome.RECORDED, 0),
    ]
    assert (Event.objects.count(), Signal.objects.count()) == (before, 0)


def test_a_check_raises_the_refusal_and_does_not_record_it(engine):
    before = Event.objects.count()
    with pytest.raises(DirectionMismatch):
        receive.check(IncomingSignal(bodies.fanout(direction="short"), engine))
    assert Event.objects.count() == before

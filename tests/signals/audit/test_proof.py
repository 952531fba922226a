"""An audit that goes on from a position that was proved finds what a whole one finds from there."""

import pytest
from django.db.models import F

from events.models import Event, Head
from signals.audit.run import Proved, run_audit
from signals.intake.models import Signal
from tests.signals.audit.stage import broken, proved_at, rolled_back

pytestmark = [pytest.mark.django_db, pytest.mark.slow, pytest.mark.once]


STEP = 7  # positions from one audit that ended to the next


def audited(proved=None):
    """The names of the promises that an audit finds broken, and what it passes on."""
    owners = []
    findings = run_audit(proved, lambda owner: owners.append((owner.id, owner.saved())))
    return [name for name, finding in vars(findings).items() if finding.broken], owners


def test_an_audit_from_any_position_describes_the_rows_as_a_whole_one_does(falsified):
    whole, head = audited(), Head.objects.get().position
    assert whole[0] == []
    for position in range(1, head + 1, STEP):
        assert audited(proved_at(position)) == whole, position


def test_a_later_event_that_cannot_follow_is_found(falsified):
    """Events of desks, cards and credentials, each as the first that an audit looks at again."""
    missed = []
    for event in Event.objects.exclude(kind__startswith="signal.").order_by("position")[::STEP]:
        proved = proved_at(event.position - 1)
        with rolled_back():
            Event.objects.filter(pk=event.pk).update(
                content={"signal": None, "data": {"forged": 1}}
            )
            if not broken(proved):
                missed.append(event)
    assert missed == []


def test_a_later_signal_is_compared_with_the_rows_that_were_proved(falsified):
    last = Signal.objects.latest("position")
    proved = proved_at(last.position - 1)
    Signal.objects.filter(pk=last.pk).update(matched=F("matched") + 1)
    assert "signals" in broken(proved)


def test_a_gap_behind_the_proved_position_is_found(falsified):
    position = Head.objects.get().position - 5
    proved = proved_at(position)
    Event.objects.filter(position=position + 1).delete()
    assert f"evt_{position + 1}" in broken(proved)["positions"]


def test_a_row_that_was_proved_and_is_gone_is_found(falsified):
    proved = proved_at(Head.objects.get().position)
    without_a_desk = [(owner, rows) for owner, rows in proved.owners if owner]
    assert broken(Proved(proved.position, without_a_desk))

"""An audit that goes on from a position that was proved finds what a whole one finds from there."""

import pytest
from django.db.models import F

from events.models import Event, Head
from signals.audit.run import Proved, Stored, read
from signals.intake.models import Signal
from tests.signals.audit import stage
from tests.signals.audit.stage import broken, broken_by, proved_at, with_values

pytestmark = [pytest.mark.django_db, pytest.mark.slow, pytest.mark.once]


STEP = 7  # positions from one audit that ended to the next


def audited(stored, proved=None):
    """The broken promises, and what the audit passes on of each owner."""
    owners = []
    lines = broken_by(stored, proved, lambda owner: owners.append((owner.id, owner.saved())))
    return lines, owners


def divided(stored, position):
    """What an audit up to a position proves, and what one from there reads."""
    events, signals, rows = stored
    proved = audited(Stored(up_to(events, position), up_to(signals, position), {}))[1]
    return Proved(position, proved), Stored(after(events, position), after(signals, position), rows)


def up_to(rows, position):
    return [row for row in rows if row.position <= position]


def after(rows, position):
    return [row for row in rows if row.position > position]


def test_an_audit_from_any_position_describes_the_rows_as_a_whole_one_does(stored):
    whole = audited(stored)
    assert whole[0] == {}
    for position in range(1, len(stored.events) + 1, STEP):
        proved, later = divided(stored, position)
        assert audited(later, proved) == whole, position


def test_it_reads_what_is_later_from_the_database(falsified, stored):
    position = len(stored.events) // 4
    events, signals, _ = read(position, None)
    assert [*events] == after(stored.events, position)
    assert [*signals] == after(stored.signals, position)
    owners = []
    stage.audited(proved_at(position), lambda owner: owners.append((owner.id, owner.saved())))
    assert owners == audited(stored)[1]


def test_a_later_event_that_cannot_follow_is_found(stored):
    """Events of desks, cards and credentials, each as the first that an audit looks at again."""
    events = [event for event in stored.events if not event.kind.startswith("signal.")]
    forged = {"signal": None, "data": {"forged": 1}}
    missed = []
    for event in events[::STEP]:
        proved, later = divided(stored, event.position - 1)
        if not broken_by(with_values(later, event, content=forged), proved):
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

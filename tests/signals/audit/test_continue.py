"""``manage.py audit --continue``: the file, and what of the proved part is compared again."""

import gzip
import io
import json

import pytest
from django.core.management import CommandError, call_command

from desks.models import Desk
from events.models import Event, Head
from signals.audit import proof
from signals.audit.proof import AUDIT
from signals.intake.models import Signal
from tests.factories import a_desk
from tests.signals.audit.stage import a_brief_history, a_lively_history, without_an_index

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def brief(db):
    a_brief_history()


@pytest.fixture
def file(tmp_path):
    return tmp_path / "audit.gz"


def run(file):
    """What the command reports, and its error message or None."""
    printed, said = io.StringIO(), None
    try:
        call_command("audit", "--json", "--continue", str(file), stdout=printed)
    except CommandError as failure:
        said = str(failure)
    return json.loads(printed.getvalue() or "{}"), said


def header(file):
    with gzip.open(file) as lines:
        return json.loads(next(lines))


def positions(report):
    return report["promises"][1]


def test_it_goes_on_where_it_ended_and_says_what_it_does_not_look_at_again(brief, file):
    first, said = run(file)
    assert (said, first["after"], len(first["digest"])) == (None, 0, 64)
    assert file.stat().st_mode & 0o077 == 0
    desk = a_desk()
    second, said = run(file)
    assert (said, second["after"]) == (None, first["position"])
    assert positions(second)["count"] == second["position"] - first["position"]
    (added,) = set(second["notCovered"]) - set(first["notCovered"])
    assert f"{first['position']:,}" in added
    a_desk()
    Desk.objects.filter(pk=desk.pk).update(connected=True)
    third, said = run(file)
    assert said
    assert third["after"] == second["position"]
    assert header(file)["position"] == second["position"]  # the proof stays as it was
    assert list(file.parent.iterdir()) == [file]


def test_the_digest_is_that_of_a_whole_audit_at_the_same_position(db, file):
    a_lively_history()
    run(file)
    a_desk()
    assert run(file)[0]["digest"] == run(file.with_name("whole"))[0]["digest"]


def test_an_audit_in_steps_describes_the_rows_as_one_in_a_single_step(db, file, monkeypatch):
    a_lively_history()
    whole, _ = run(file.with_name("whole"))
    monkeypatch.setattr(proof, "STEP", 7)
    in_steps, said = run(file)
    assert said is None
    assert in_steps == whole
    assert header(file) == header(file.with_name("whole"))


def test_an_audit_that_ended_midway_goes_on_from_its_last_step(brief, file, monkeypatch):
    monkeypatch.setattr(proof, "STEP", 3)
    head = Head.objects.get().position
    last = Event.objects.get(position=head)
    Event.objects.filter(position=head).update(content={})
    assert run(file)[1]
    reached = header(file)["position"]
    assert head - 3 <= reached < head
    last.save()
    report, said = run(file)
    assert (said, report["after"]) == (None, reached)
    assert report["digest"] == run(file.with_name("whole"))[0]["digest"]


def test_a_step_that_finds_something_broken_proves_nothing_and_the_later_ones_follow(
    brief, file, monkeypatch
):
    monkeypatch.setattr(proof, "STEP", 1)
    refused = Event.objects.get(kind="signal.refused")
    Event.objects.filter(pk=refused.pk).update(signal_id="sig_forged")
    a_desk(), a_desk()
    report, said = run(file)
    assert said
    broken = [line["first"] for line in report["promises"] if line["broken"]]
    assert broken == [[f"{refused.id} (signal)"]]
    assert positions(report)["count"] == report["position"]
    assert header(file)["position"] == refused.position - 1
    assert list(file.parent.iterdir()) == [file]


def test_a_broken_audit_keeps_the_file_of_its_last_step_alone(brief, file, monkeypatch):
    """Each is as large as all rows."""
    kept, successor = [], proof._successor

    def noting(beside, place):
        kept.append(len(list(beside.parent.iterdir())))
        return successor(beside, place)

    monkeypatch.setattr(proof, "STEP", 1)
    monkeypatch.setattr(proof, "_successor", noting)
    Event.objects.filter(position=1).update(content={})
    a_desk(), a_desk()
    assert run(file)[1]
    assert kept == [0, *[1] * (Head.objects.get().position - 1)]


def test_a_file_that_another_audit_replaces_between_two_readings_is_refused(
    brief, file, monkeypatch
):
    run(file)
    a_desk()
    other, usable = file.with_name("other"), proof._usable
    run(other)
    later = other.read_bytes()

    def then_replaced(*given):
        found = usable(*given)
        other.replace(file)
        return found

    monkeypatch.setattr(proof, "_usable", then_replaced)
    with pytest.raises(CommandError) as failure:
        call_command("audit", "--continue", str(file), stdout=io.StringIO())
    assert failure.value.returncode == 2
    assert file.read_bytes() == later


def test_it_prints_the_digest(brief, file):
    printed = io.StringIO()
    call_command("audit", "--continue", str(file), stdout=printed)
    assert run(file)[0]["digest"] in printed.getvalue()


@pytest.mark.parametrize("loss", ["an event", "a signal", "the last event", "the end"])
def test_what_was_proved_and_is_lost_is_found_and_the_log_read_whole(brief, file, loss):
    run(file)
    position = Head.objects.get().position
    a_desk()
    if loss == "an event":
        Event.objects.filter(kind="signal.refused").earliest("position").delete()
    elif loss == "a signal":
        Signal.objects.earliest("position").delete()
    elif loss == "the last event":
        Event.objects.filter(position=position).update(actor_id=None, actor_type=None)
    else:
        Event.objects.filter(position__gte=position).delete()
        Head.objects.update(position=position - 1)
    report, said = run(file)
    assert said
    assert report["after"] == 0
    assert f"evt_{position}" in str(positions(report)["first"])


def test_nothing_is_proved_while_the_tables_are_not_as_the_migrations_describe(brief, file):
    position = run(file)[0]["position"]
    a_desk()
    with without_an_index():
        assert run(file)[1]
    assert header(file)["position"] == position


@pytest.mark.parametrize("member", ["epoch", "audit"])
def test_a_proof_of_another_epoch_or_release_is_replaced(brief, file, member):
    run(file)
    with gzip.open(file) as lines:
        first, *rest = lines.readlines()
    other = {**json.loads(first), member: "another"}
    with gzip.open(file, "wb") as lines:
        lines.writelines([json.dumps(other).encode() + b"\n", *rest])
    report, said = run(file)
    assert (said, report["after"], header(file)["audit"]) == (None, 0, AUDIT)


def test_a_damaged_or_foreign_file_is_refused(brief, file):
    run(file)
    whole = file.read_bytes()
    other = gzip.decompress(whole).replace(b'"events": ', b'"events": 1', 1)
    in_its_place = gzip.compress(other)[:-8] + whole[-8:]  # with the checksum of the place before
    for damaged in (whole[:-9], whole[:40], in_its_place, b"", b"text", gzip.compress(b"{}\n")):
        file.write_bytes(damaged)
        with pytest.raises(CommandError) as failure:
            call_command("audit", "--continue", str(file), stdout=io.StringIO())
        assert failure.value.returncode == 2
        assert file.read_bytes() == damaged
    assert list(file.parent.iterdir()) == [file]

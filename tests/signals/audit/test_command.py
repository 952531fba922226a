"""The output of ``manage.py audit``, and that it runs while the service writes."""

import io
import json
import threading

import pytest
from django.core.management import CommandError, call_command
from django.db import InternalError, OperationalError, connections

from events.kinds import Kind
from events.models import Event, Head
from events.statements import snapshot
from signals.audit.findings import NOT_COVERED, Findings
from tests.factories import a_desk, an_event_of_a_later_release
from tests.signals.audit.stage import a_brief_history, broken, changed, without_an_index

PROMISES = {name: finding.says for name, finding in vars(Findings()).items()}

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def brief(db):
    a_brief_history()


def run(*arguments):
    """The output of the command, and its error message or None."""
    printed = io.StringIO()
    try:
        call_command("audit", *arguments, stdout=printed)
    except CommandError as failure:
        return printed.getvalue(), str(failure)
    return printed.getvalue(), None


def lose_the_first_refusal():
    event = Event.objects.filter(kind=Kind.SIGNAL_REFUSED).earliest("position")
    Event.objects.filter(pk=event.pk).delete()
    return event.id


def test_it_prints_a_line_for_each_promise_and_what_it_does_not_cover(brief):
    printed, failed = run()
    head = Head.objects.get()
    assert failed is None
    assert len(printed.splitlines()) == len(PROMISES) + 3 + len(NOT_COVERED)
    assert f"ok  {head.position:>16,} {PROMISES['positions']}" in printed
    assert f"Every promise holds at position {head.position:,}, epoch {head.epoch}." in printed
    for what in NOT_COVERED:
        assert f"- {what}" in printed


def test_it_names_the_first_breaches_and_fails(brief):
    missing = lose_the_first_refusal()
    printed, failed = run()
    assert f"{PROMISES['positions']}: 1 broken: {missing}\n" in printed
    assert "Every promise holds" not in printed
    assert failed == f"1 of {len(PROMISES)} promises are broken."


def test_it_names_an_event_of_a_kind_that_only_a_later_release_knows(brief):
    event = an_event_of_a_later_release(a_desk())
    printed, failed = run()
    assert f"{PROMISES['events']}: 1 broken: {event.id} (kind)\n" in printed
    assert failed == f"1 of {len(PROMISES)} promises are broken."


def test_it_names_what_differs_from_the_migrations(brief):
    with without_an_index():
        printed, failed = run()
    assert f"{PROMISES['schema']}: 1 broken: The index event_kind of events_event is m" in printed
    assert failed == f"1 of {len(PROMISES)} promises are broken."


def test_tables_that_it_cannot_read_are_named(brief):
    renamed = "ALTER TABLE events_head RENAME COLUMN {} TO {}"
    back = changed(renamed.format("at", "was_at"), renamed.format("was_at", "at"))
    with back, pytest.raises(CommandError) as failure:
        call_command("audit")
    assert failure.value.returncode == 2
    assert str(failure.value).splitlines() == [
        "The tables cannot be read.",
        "The column at of events_head is missing.",
        "The column was_at of events_head is in no migration.",
    ]


def test_another_command_refuses_a_database_that_lacks_what_it_needs(brief):
    renamed = "ALTER TABLE signals_signal RENAME COLUMN {} TO {}"
    back = changed(renamed.format("nonce", "once"), renamed.format("once", "nonce"))
    with back, pytest.raises(CommandError) as failure:
        call_command("new_epoch")
    assert failure.value.returncode == 2
    assert str(failure.value).splitlines() == [
        "The database lacks what this release needs.",
        "The column nonce of signals_signal is missing.",
        "The column once of signals_signal must be given, and no model has it.",
    ]


def test_the_json_option_prints_one_object(brief):
    said = json.loads(run("--json")[0])
    head = Head.objects.get()
    assert (said["holds"], said["position"], said["epoch"]) == (True, head.position, head.epoch)
    assert [line["says"] for line in said["promises"]] == list(PROMISES.values())
    assert said["notCovered"] == list(NOT_COVERED)
    missing = lose_the_first_refusal()
    said, failed = run("--json")
    line = next(line for line in json.loads(said)["promises"] if line["broken"])
    assert failed
    assert (line["broken"], line["first"]) == (1, [missing])


def test_an_empty_database_keeps_every_promise(db):
    assert run()[1] is None


def test_concurrent_writes_do_not_wait_and_are_not_seen(brief):
    """Another connection writes while the snapshot is open."""
    before = Head.objects.get().position
    with snapshot():
        assert Head.objects.get().position == before
        write_beside()
        assert Head.objects.get().position == before
        assert broken() == {}
    assert Head.objects.get().position == before + 1


def test_a_snapshot_writes_nothing(brief):
    with pytest.raises((OperationalError, InternalError)), snapshot():
        Head.objects.update(epoch="written")
    Head.objects.update(epoch="afterwar")


def write_beside():
    """Creates a desk in a thread, on another connection."""

    def write():
        a_desk()
        connections.close_all()

    writer = threading.Thread(target=write)
    writer.start()
    writer.join()

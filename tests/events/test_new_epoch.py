"""After a restore that lost events a new epoch begins: older cursors are refused, not believed."""

import io

import pytest
from django.core.management import CommandError, call_command

from events.models import Event, Head
from tests.client import EVENTS, code, get
from tests.factories import a_desk, a_platform_token

pytestmark = pytest.mark.django_db


def begin():
    printed = io.StringIO()
    call_command("new_epoch", stdout=printed)
    return printed.getvalue()


def test_a_cursor_from_before_is_refused_and_one_from_after_goes_on():
    engine = a_platform_token()
    before = get(EVENTS, engine).json()["next"]
    said = begin()
    assert code(get(f"{EVENTS}?after={before}", engine)) == "cursor_lost"
    after = get(EVENTS, engine).json()["next"]
    desk = a_desk()
    (event,) = get(f"{EVENTS}?after={after}", engine).json()["events"]
    assert (event["kind"], event["userId"]) == ("desk.created", desk.public_id)
    assert Head.objects.get().epoch in said


def test_it_changes_nothing_but_the_epoch():
    a_platform_token()
    head, events = Head.objects.get(), list(Event.objects.values())
    begin()
    now = Head.objects.get()
    assert (now.position, list(Event.objects.values())) == (head.position, events)
    assert now.epoch != head.epoch


def test_a_database_without_a_log_is_told_apart():
    Head.objects.all().delete()
    with pytest.raises(CommandError, match="migrate"):
        begin()

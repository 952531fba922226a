"""manage.py new_epoch: earlier cursors are refused after a restore that lost events."""

import io

import pytest
from django.core.management import CommandError, call_command

from events.models import Event, Head
from tests.client import EVENTS, code, get
from tests.factories import a_desk, a_platform_token

pytestmark = pytest.mark.django_db


def start_epoch():
    output = io.StringIO()
    call_command("new_epoch", stdout=output)
    return output.getvalue()


def test_an_earlier_cursor_is_refused_and_a_later_one_resumes():
    engine = a_platform_token()
    before = get(EVENTS, engine).json()["next"]
    output = start_epoch()
    assert code(get(f"{EVENTS}?after={before}", engine)) == "cursor_lost"
    after = get(EVENTS, engine).json()["next"]
    desk = a_desk()
    (event,) = get(f"{EVENTS}?after={after}", engine).json()["events"]
    assert (event["kind"], event["userId"]) == ("desk.created", desk.public_id)
    assert Head.objects.get().epoch in output


def test_only_the_epoch_changes():
    a_platform_token()
    head, events = Head.objects.get(), list(Event.objects.values())
    start_epoch()
    now = Head.objects.get()
    assert (now.position, list(Event.objects.values())) == (head.position, events)
    assert now.epoch != head.epoch


def test_a_database_without_a_log_is_refused():
    Head.objects.all().delete()
    with pytest.raises(CommandError, match="migrate"):
        start_epoch()

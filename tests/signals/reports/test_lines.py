"""A desk's events as lines: what its owner reads of each kind."""

import pytest
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.html import strip_tags

from events.kinds import Kind
from events.models import Event
from signals.reports.activity import Line, lines
from tests.signals.audit.stage import a_lively_history

pytestmark = pytest.mark.django_db


def test_every_kind_of_event_is_told_in_whole_sentences():
    a_lively_history()
    events = list(Event.objects.all())
    assert {event.kind for event in events} == set(Kind.values)
    page = render_to_string("events/list.html", {"lines": lines(events, {})})
    assert page.count('id="evt_') == len(events)
    for line in lines(events, {}):
        told = render_to_string(
            line.templates, {"line": line, "data": line.data, "signal": line.signal}
        )
        assert told.strip()
        assert "None" not in told


def test_a_kind_without_a_template_says_what_it_is_called_and_which_bot_it_concerns():
    line = Line("desk.closed", timezone.now(), "evt_1", {}, None, "auto_1", None)
    own, general = line.templates
    assert own == "events/desk.closed.html"
    said = " ".join(strip_tags(render_to_string(general, {"line": line})).split())
    assert said == "Desk closed: the bot auto_1."


def test_staff_read_of_it_who_did_it_and_for_which_desk(desk):
    event = Event.objects.filter(kind=Kind.DESK_CREATED).get()
    context = {"label": Kind.DESK_CREATED.label, "event": event}
    said = strip_tags(render_to_string("control/events/any.html", context)).strip()
    assert said == f"The service itself: Desk opened, for the desk {desk.public_id}."

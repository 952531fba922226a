"""A desk's events as lines: what its owner reads of each kind."""

import pytest
from django.template.loader import render_to_string

from events.kinds import Kind
from events.models import Event
from signals.reports.activity import lines
from tests.signals.audit.stage import a_lively_history

pytestmark = pytest.mark.django_db


def test_every_kind_of_event_is_told_in_whole_sentences():
    a_lively_history()
    events = list(Event.objects.all())
    assert {event.kind for event in events} == set(Kind.values)
    page = render_to_string("events/list.html", {"lines": lines(events, {})})
    assert page.count("<li ") == len(events)
    for line in lines(events, {}):
        told = render_to_string(line.template, {"data": line.data, "signal": line.signal})
        assert told.strip()
        assert "None" not in told

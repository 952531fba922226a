"""The pages of the log in the control area."""

import pytest
from django.test import Client

from events.actors import SYSTEM
from events.models import Event
from tests import factories, staff
from tests.client import push
from tests.signals import bodies
from tests.staff import staff_client  # noqa: F401 - the fixture "client"

pytestmark = pytest.mark.django_db


def listed(client: Client, **query: str) -> list[int]:
    response = client.get(staff.list_of(Event), query)
    assert response.status_code == 200
    return [event.position for event in response.context["cl"].result_list]


def test_the_newest_event_comes_first(client, desk):
    positions = listed(client)
    assert positions == sorted(positions, reverse=True)
    assert len(positions) == Event.objects.count() == 4


def test_events_can_be_filtered_by_kind(client, desk, stranger):
    expected = Event.objects.filter(kind="desk.connected").values_list("position", flat=True)
    assert sorted(listed(client, kind="desk.connected")) == sorted(expected)
    assert len(listed(client, kind="no.such")) == Event.objects.count()


def test_events_are_found_by_topic(client, desk, stranger, card):
    assert len(listed(client, q=desk.public_id)) == 3
    assert listed(client, q="all") == [1]
    push(bodies.fanout(), factories.a_platform_token())
    assert listed(client, q=card.pk) == [Event.objects.get(kind="signal.filled").position]


def test_events_are_found_by_their_signal(client, desk):
    response = push(bodies.fanout(), factories.a_platform_token()).json()
    assert listed(client, q=response["signal"]["id"]) == [response["signal"]["position"]]


def test_an_event_id_lists_that_event_and_earlier_ones(client, desk):
    assert listed(client, q="evt_2") == [2, 1]


def test_an_event_is_shown_as_the_platform_and_as_customers_see_it(client, desk):
    push(bodies.fanout(nonce="seen-by-the-platform"), factories.a_platform_token())
    filled = Event.objects.get(kind="signal.filled")
    page = client.get(staff.page_of(filled)).content.decode()
    whole, _, for_users = page.partition("What users see")
    assert "seen-by-the-platform" in whole
    assert "seen-by-the-platform" not in for_users
    assert "pair" in for_users


def test_a_platform_only_event_is_labelled(client):
    factories.a_platform_token()
    page = client.get(staff.page_of(Event.objects.get())).content.decode()
    assert "Nothing. Only the platform sees this event." in page


def test_the_content_of_an_event_is_escaped(client):
    desk = factories.a_connected_desk()
    factories.desks.add_automation(desk=desk, name="<script>alert(1)</script>", actor=SYSTEM)
    page = client.get(staff.page_of(Event.objects.last())).content.decode()
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page

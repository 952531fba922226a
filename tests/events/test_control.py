"""The control area's pages of the log."""

import pytest
from django.test import Client

from events.models import Event
from tests import factories, staff
from tests.client import push
from tests.signals import bodies

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> Client:
    return staff.a_client()


def found(client: Client, **query: str) -> list[int]:
    response = client.get(staff.list_of(Event), query)
    assert response.status_code == 200
    return [event.position for event in response.context["cl"].result_list]


def test_the_newest_event_comes_first(client, desk):
    positions = found(client)
    assert positions == sorted(positions, reverse=True)
    assert len(positions) == Event.objects.count() == 4


def test_events_are_narrowed_to_a_kind(client, desk, stranger):
    expected = Event.objects.filter(kind="desk.connected").values_list("position", flat=True)
    assert sorted(found(client, kind="desk.connected")) == sorted(expected)
    assert len(found(client, kind="no.such")) == Event.objects.count()


def test_events_are_found_by_whom_they_address(client, desk, stranger, card):
    assert len(found(client, q=desk.public_id)) == 3
    assert found(client, q="all") == [1]
    push(bodies.fanout(), factories.a_platform_token())
    assert found(client, q=card.pk) == [Event.objects.get(kind="signal.filled").position]


def test_events_are_found_by_their_signal(client, desk):
    answer = push(bodies.fanout(), factories.a_platform_token()).json()
    assert found(client, q=answer["signal"]["id"]) == [answer["signal"]["position"]]


def test_one_reads_on_from_an_event_of_long_ago(client, desk):
    assert found(client, q="evt_2") == [2, 1]


def test_an_event_is_shown_as_the_platform_and_as_customers_see_it(client, desk):
    push(bodies.fanout(nonce="seen-by-the-platform"), factories.a_platform_token())
    filled = Event.objects.get(kind="signal.filled")
    page = client.get(staff.page_of(filled)).content.decode()
    whole, _, for_customers = page.partition("What customers see")
    assert "seen-by-the-platform" in whole
    assert "seen-by-the-platform" not in for_customers
    assert "pair" in for_customers


def test_an_event_for_the_platform_only_says_so(client):
    factories.a_platform_token()
    page = client.get(staff.page_of(Event.objects.get())).content.decode()
    assert "Nothing: it is for the platform only." in page


def test_what_an_event_holds_is_text_and_not_markup(client):
    desk = factories.a_connected_desk()
    factories.desks.add_automation(desk=desk, name="<script>alert(1)</script>")
    page = client.get(staff.page_of(Event.objects.last())).content.decode()
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page

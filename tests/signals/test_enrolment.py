"""The desks that came back after a card was published, on the card's page."""

from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from desks import actions as desks
from events.actors import SYSTEM
from events.models import Head
from signals.control import enrolment as module
from signals.control.enrolment import enrolment
from tests import factories, staff
from tests.pages import words
from tests.staff import staff_client  # noqa: F401 - the fixture "client"

pytestmark = pytest.mark.django_db


def enrol(desk, card, at):
    with time_machine.travel(at, tick=False):
        desks.enrol(desk=desk, card_id=card.pk, actor=SYSTEM)


def test_the_desks_that_enrolled_again_are_counted_over_time(client):
    now = timezone.now()
    Head.objects.update(at=now - timedelta(days=9))  # the log's time never runs back
    with time_machine.travel(now - timedelta(days=2), tick=False):
        first = factories.a_card()
        old = [factories.a_ready_desk(first) for _ in range(4)]
        gone = factories.a_ready_desk(first)
        desks.withdraw_from_card(desk=gone, actor=SYSTEM)
        card = factories.a_card("Evening")
    published = card.published_at
    enrol(old[0], card, published + timedelta(minutes=5))
    enrol(gone, card, published + timedelta(minutes=6))
    enrol(old[1], card, published + timedelta(hours=3))
    with time_machine.travel(published + timedelta(hours=4), tick=False):
        desks.withdraw_from_card(desk=old[0], actor=SYSTEM)
    enrol(old[0], card, published + timedelta(hours=5))
    found = enrolment(card, now)
    assert (found.previous, found.unenrolled) == (first, 4)
    assert (found.returned, found.joined, found.is_complete) == (2, 1, True)
    assert [(each.after, each.returned, each.bar) for each in found.milestones] == [
        ("15 minutes", 1, 25),
        ("1 hour", 1, 25),
        ("6 hours", 2, 50),
        ("1 day", 2, 50),
        ("2 days", 2, 50),
    ]
    page = words(client.get(staff.page_of(card)))
    assert "4 desks were enrolled in Morning when it was retired." in page
    assert "2 enrolled again in this card, and 1 other desk enrolled." in page


def test_the_first_card_says_that_nobody_had_to_come_back(client, card):
    assert "This is the first card" in words(client.get(staff.page_of(card)))


def test_only_the_first_elections_are_read_and_the_page_says_so(client, card, monkeypatch):
    monkeypatch.setattr(module, "MAX_READ", 1)
    again = [factories.a_ready_desk(card) for _ in range(2)]
    evening = factories.a_card("Evening")
    for desk in again:
        desks.enrol(desk=desk, card_id=evening.pk, actor=SYSTEM)
    assert enrolment(evening, timezone.now()).returned == 1
    assert "Counted are the first 1 elections" in words(client.get(staff.page_of(evening)))

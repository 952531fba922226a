"""Database constraints: every "at most one" and "exactly one of" holds without our code."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from desks.models import Card, Connection, Desk, Election, User
from tests.factories import a_bot, a_card, a_connected_desk, a_desk, a_staff_user

pytestmark = pytest.mark.django_db

NOW = timezone.now


def refused(make: Callable[..., Any], *args: Any, **fields: Any) -> bool:
    """Whether a database constraint refuses the row."""
    try:
        with transaction.atomic():
            make(*args, **fields)
    except IntegrityError:
        return True
    return False


def new_card(**fields: Any) -> Card:
    return Card.objects.create(
        **{"name": "A", "pair": "A/B", "direction": "long", "opened": 90, "published_at": NOW()}
        | fields
    )


def new_election(desk: Desk, **fields: Any) -> Election:
    return Election.objects.create(
        **{"desk": desk, "pair": "A/B", "direction": "long", "opened": 91, "elected_at": NOW()}
        | fields
    )


def test_an_address_belongs_to_one_user():
    user = a_desk().user
    assert refused(User.objects.create_user, user.email)
    assert refused(User.objects.create_user, user.email.upper())


def test_staff_and_superuser_are_one_role():
    assert refused(User.objects.create, email="a@example.com", is_staff=True)
    assert refused(User.objects.create, email="a@example.com", is_superuser=True)
    assert a_staff_user().is_superuser


def test_a_user_has_one_desk():
    desk = a_desk()
    another = {"created_at": NOW(), "updated_at": NOW(), "changed": desk.changed + 1}
    assert refused(Desk.objects.create, user=desk.user, **another)


def test_a_desk_has_one_connection():
    desk = a_connected_desk()
    assert refused(Connection.objects.create, desk=desk, venue="Other", connected_at=NOW())


def test_one_card_is_published():
    a_card()
    assert refused(new_card)


def test_a_card_closes_after_it_opens_and_says_when():
    assert refused(new_card, closed=90, retired_at=NOW())
    assert refused(new_card, closed=95)
    assert refused(new_card, retired_at=NOW())


def test_a_card_has_a_known_direction():
    assert refused(new_card, direction="flat")


def test_a_desk_has_one_standing_election_on_a_card(desk, card):
    assert refused(new_election, desk, card=card)


def test_a_withdrawn_election_leaves_room_for_another(desk, card):
    Election.objects.filter(desk=desk).update(closed=80, reason="asked")
    assert not refused(new_election, desk, card=card)


def test_an_automation_has_one_standing_election(desk):
    bot = a_bot(desk)
    assert refused(new_election, desk, automation=bot.automation)


def test_an_election_is_on_a_card_or_an_automation_and_never_on_both(desk, card):
    bot = a_bot(desk)
    Election.objects.update(closed=80, reason="asked")
    assert refused(new_election, desk)
    assert refused(new_election, desk, card=card, automation=bot.automation)


def test_an_election_closes_after_it_opens(desk, card):
    assert refused(new_election, a_desk(), card=card, closed=91, reason="asked")


def test_an_election_closes_for_a_reason(desk, card):
    assert refused(new_election, a_desk(), card=card, closed=95)
    assert refused(new_election, a_desk(), card=card, closed=95, reason="unheard of")
    assert refused(new_election, a_desk(), card=card, reason="asked")


def test_a_deactivated_desk_is_not_connected(desk, card):
    assert refused(Desk.objects.filter(pk=desk.pk).update, deactivated=True)
    assert not refused(Desk.objects.filter(pk=a_desk().pk).update, deactivated=True)


def test_an_election_has_a_known_direction(card):
    assert refused(new_election, a_desk(), card=card, direction="flat")


def test_each_election_opens_at_a_position_of_its_own(card):
    new_election(a_desk(), card=card)
    assert refused(new_election, a_desk(), card=card)


def test_rows_that_events_refer_to_cannot_be_deleted(desk, card):
    bot = a_bot(desk)
    for row in (desk, desk.user, card, bot.automation):
        with pytest.raises(IntegrityError), transaction.atomic():
            type(row).objects.filter(pk=row.pk).delete()

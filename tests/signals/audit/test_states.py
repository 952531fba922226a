"""The audit finds rows that no event describes, and that cannot be."""

import pytest

from desks.ids import new_staff_id
from desks.models import Bookmark, Desk, User
from events.models import Head
from signals.notices.triggers import LOG
from signals.webhooks.models import Subscription
from tests.factories import a_staff_user
from tests.signals.audit.stage import broken, drop_rules

pytestmark = [pytest.mark.django_db, pytest.mark.once]


def test_a_customer_who_was_made_staff_is_found(falsified):
    desk = Desk.objects.first()
    made = {"is_staff": True, "is_superuser": True, "staff_id": new_staff_id()}
    User.objects.filter(pk=desk.user_id).update(**made)
    assert broken() == {"users": [f"{desk.public_id} (its owner is staff)"]}


@pytest.mark.parametrize("column", ["is_staff", "is_superuser"])
def test_staff_with_half_of_its_role_are_found(falsified, column):
    drop_rules(User)
    staff = a_staff_user("half@example.com")
    User.objects.filter(pk=staff.pk).update(**{column: False})
    assert broken() == {"users": [f"{staff.staff_id} (is_staff, is_superuser)"]}


def beyond():
    return Head.objects.get().position + 1


def test_a_webhook_beyond_the_end_of_the_log_is_found(falsified):
    webhook = Subscription.objects.first()
    Subscription.objects.filter(pk=webhook.pk).update(cursor_position=beyond())
    assert broken() == {"places": [webhook.public_id]}


def test_notices_beyond_the_end_of_the_log_are_found(falsified):
    Bookmark.objects.create(name=LOG, epoch=Head.objects.get().epoch, position=beyond())
    assert broken() == {"places": ["'notices of desks'"]}


def test_a_position_of_another_epoch_or_of_no_log_is_no_fault(falsified):
    Subscription.objects.update(cursor_epoch="ffffffff", cursor_position=beyond())
    Bookmark.objects.create(name="lapsed card_1", position=beyond())
    assert broken() == {}

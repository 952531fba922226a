"""The actors of events, and which of them a desk sees (contract, section 4).

Those of the API and of actions are compared by the histories of ``tests/model``.
"""

import pytest
from django.db import IntegrityError, transaction
from django.urls import reverse

from desks.models import User
from events import log
from events.models import Event
from tests import staff
from tests.client import get
from tests.factories import a_desk_token, a_staff_user

pytestmark = pytest.mark.django_db


def last(token: str) -> dict | None:
    """The actor of the last event that a token sees."""
    events = get("/api/v1/events?order=desc&limit=1", token).json()["events"]
    return events[0]["actor"]


@pytest.fixture
def own(desk) -> str:
    return a_desk_token(desk)


def test_the_actor_of_a_change_on_a_page_is_the_user(owner, desk, engine, own):
    owner.post(reverse("withdraw"))
    user = {"type": "user", "id": desk.public_id}
    assert last(engine) == last(own) == user


def test_the_actor_of_a_change_by_staff_is_hidden_from_desks(desk, engine, own):
    user = a_staff_user()
    fields = {"name": "Evening", "pair": "ETH/USDT", "direction": "long"}
    staff.publish(staff.a_client(user), fields)
    assert user.staff_id.startswith("stf_")
    assert last(engine) == {"type": "staff", "id": user.staff_id}
    assert last(own) is None


def test_the_actor_id_of_a_staff_user_is_stable_and_unique():
    user = a_staff_user()
    first = user.staff_id
    user.save()
    assert User.objects.get(pk=user.pk).staff_id == first
    with pytest.raises(IntegrityError), transaction.atomic():
        User.objects.filter(pk=user.pk).update(staff_id=None)
    other = a_staff_user("other@example.com")
    with pytest.raises(IntegrityError), transaction.atomic():
        User.objects.filter(pk=other.pk).update(staff_id=first)


def test_a_turn_without_an_actor_is_an_error():
    with pytest.raises(TypeError), log.turn():  # type: ignore[call-arg]
        raise AssertionError


@pytest.mark.parametrize(
    "columns",
    [("system", "usr_1"), ("user", None), (None, "usr_1")],
)
def test_an_actor_has_the_id_that_its_type_requires(desk, columns):
    kind, public_id = columns
    with pytest.raises(IntegrityError), transaction.atomic():
        Event.objects.update(actor_type=kind, actor_id=public_id)

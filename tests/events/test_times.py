"""Moments, as Python and as the database writes them."""

from datetime import UTC, datetime

import pytest

from desks.models import Desk
from events.times import Written, written

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("millisecond", [0, 1, 120, 999])
def test_the_database_writes_a_moment_as_python_does(desk, millisecond):
    moment = datetime(2026, 1, 2, 23, 59, 59, millisecond * 1000, UTC)
    Desk.objects.update(created_at=moment)
    assert Desk.objects.values_list(Written("created_at"), flat=True).get() == written(moment)


def test_no_moment_is_written_as_none(desk):
    nothing = Written("user__last_login")
    assert Desk.objects.values_list(nothing, flat=True).get() is written(None)

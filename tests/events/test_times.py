"""Times in the contract's format, from Python and from the database."""

from datetime import UTC, datetime

import pytest

from desks.models import Desk
from events.times import ToRfc3339, to_rfc3339

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("millisecond", [0, 1, 120, 999])
def test_the_database_formats_a_time_like_python(desk, millisecond):
    moment = datetime(2026, 1, 2, 23, 59, 59, millisecond * 1000, UTC)
    Desk.objects.update(created_at=moment)
    assert Desk.objects.values_list(ToRfc3339("created_at"), flat=True).get() == to_rfc3339(moment)


def test_none_is_formatted_as_none(desk):
    nothing = ToRfc3339("user__last_login")
    assert Desk.objects.values_list(nothing, flat=True).get() is to_rfc3339(None)

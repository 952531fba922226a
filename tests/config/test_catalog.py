"""GET /api/v1: the catalog (the customer's section 4)."""

import pytest

from tests.client import CATALOG, get
from tests.factories import a_card

pytestmark = [pytest.mark.django_db, pytest.mark.once]


def test_the_published_card_is_exactly_name_pair_and_direction():
    a_card("Morning", "SOL/USDT", "short")
    card = {"name": "Morning", "pair": "SOL/USDT", "direction": "short"}
    assert get(CATALOG).json()["plug"]["publishedCard"] == card


def test_the_catalog_may_be_kept_but_is_asked_after_each_time():
    response = get(CATALOG)
    assert response["Cache-Control"] == "public, no-cache"
    again = get(CATALOG, **{"If-None-Match": response["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again["X-Request-Id"]
    a_card()
    assert get(CATALOG, **{"If-None-Match": response["ETag"]}).status_code == 200

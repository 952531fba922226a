"""GET /api/hooks/signal: the contract page, with a published card and without one."""

import pytest

from tests.client import HOOK, get
from tests.factories import a_card

pytestmark = pytest.mark.django_db

SAMPLES = ["tv", "fanout", "oneDesk", "oneUser", "floor", "nox"]


def test_without_a_card_the_samples_have_placeholders():
    page = get(HOOK).json()
    assert page["publishedCard"] is None
    for name in SAMPLES:
        assert page[name]["body"]["pair"] == "<BASE>/<QUOTE>"
        assert page[name]["body"]["direction"] == "long"


def test_the_samples_are_the_customers_shapes(desk):
    page = get(HOOK).json()
    common = {"pair", "direction", "nonce", "elected", "source"}
    assert set(page["tv"]["body"]) == {"botId", *common}
    assert set(page["oneDesk"]["body"]) == {*common, "mode"}
    assert set(page["floor"]["body"]) == {"userId", *common, "mode"}
    assert set(page["fanout"]["body"]) == {"fanout", *common}
    assert set(page["oneUser"]["body"]) == {"fanout", "userId", *common}
    assert set(page["nox"]["body"]) == {
        "fanout",
        "action_id",
        "trace_id",
        "pair",
        "direction",
        "elected",
        "source",
        "mode",
        "size_quote",
        "rationale",
        "decision_ref",
    }


def test_the_page_explains_how_to_sign():
    signing = get(HOOK).json()["signing"]
    assert signing["algorithm"] == "HMAC-SHA256"
    assert signing["toleranceSeconds"] == 300
    assert set(signing["vector"]) == {"secret", "timestamp", "body", "signature"}


def test_the_page_is_cached_but_revalidated(desk):
    response = get(HOOK)
    assert response["Cache-Control"] == "public, no-cache"
    again = get(HOOK, **{"If-None-Match": response["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again["ETag"] == response["ETag"]
    a_card("Evening")
    changed = get(HOOK, **{"If-None-Match": response["ETag"]})
    assert changed.status_code == 200
    assert changed["ETag"] != response["ETag"]

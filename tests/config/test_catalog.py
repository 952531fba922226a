"""GET /api/v1: the catalog (the customer's section 4)."""

import pytest

from tests.client import CATALOG, get
from tests.factories import a_card

pytestmark = pytest.mark.django_db

PATHS = {
    "catalog": "GET /api/v1",
    "me": "GET /api/v1/me",
    "desks": "GET /api/v1/desks",
    "readyDesks": "GET /api/v1/desks?ready=1",
    "connectedDesks": "GET /api/v1/desks?connected=1",
    "desk": "GET /api/v1/desks/{userId}",
    "deploy": "POST /api/v1/desks/{userId}/signal",
    "events": "GET /api/v1/events",
    "tokens": "GET /api/v1/tokens",
    "token": "POST /api/v1/tokens",
    "revoke": "DELETE /api/v1/tokens",
    "signal": "POST /api/hooks/signal",
    "signalContract": "GET /api/hooks/signal",
}


def test_the_catalog_is_public_and_has_exactly_the_customers_fields():
    response = get(CATALOG)
    assert response.status_code == 200
    catalog = response.json()
    assert set(catalog) == {
        "paper",
        "liveWrites",
        "law",
        "paths",
        "auth",
        "forUsers",
        "forEngine",
        "plug",
    }
    assert (catalog["paper"], catalog["liveWrites"]) == (True, False)
    assert isinstance(catalog["law"], str)
    assert isinstance(catalog["auth"], str)


def test_the_paths_are_the_contracts():
    assert get(CATALOG).json()["paths"] == PATHS


def test_every_path_that_can_be_got_is_there():
    for name, path in PATHS.items():
        method, _, address = path.partition(" ")
        if method == "GET":
            status = get(address.replace("{userId}", "usr_" + "0" * 22)).status_code
            assert status == (200 if name in ("catalog", "signalContract") else 401)


@pytest.mark.parametrize(
    ("part", "names"),
    [
        ("forUsers", {"mint", "pull", "webhook"}),
        ("forEngine", {"mint", "pull", "oneDesk", "deploy", "fanout"}),
    ],
)
def test_the_parts_for_users_and_the_engine_are_strings(part, names):
    content = get(CATALOG).json()[part]
    assert set(content) == names
    assert all(isinstance(text, str) and text for text in content.values())


def test_the_plug_is_strings_but_for_the_card_and_the_headers():
    plug = get(CATALOG).json()["plug"]
    assert set(plug) == {
        "publishedCard",
        "pull",
        "oneUser",
        "push",
        "events",
        "headers",
        "note",
    }
    assert plug["publishedCard"] is None
    assert plug["headers"] == ["Authorization", "X-SVC-Timestamp", "X-SVC-Signature"]
    for name in ("pull", "oneUser", "push", "events", "note"):
        assert isinstance(plug[name], str)


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

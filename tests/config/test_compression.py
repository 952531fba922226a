"""Large API responses are compressed on request; responses with secrets never are."""

import pytest

from config.middleware import SMALLEST
from tests.client import (
    CATALOG,
    HOOK,
    JSON,
    ME,
    TOKENS,
    end_stream,
    get,
    post,
    signed_in,
)
from tests.factories import a_desk, a_desk_token, a_platform_token, a_staff_user
from tests.routes import address, routes

pytestmark = [pytest.mark.django_db, pytest.mark.once]

GZIP = {"Accept-Encoding": "gzip"}
SCHEMA = "/api/schema"


def test_a_small_answer_stays_as_it_is():
    for response in (get(ME, a_desk_token(a_desk()), **GZIP), get("/api/v1/nothing", **GZIP)):
        assert "Content-Encoding" not in response
        assert response["Vary"] == "Accept-Encoding"
        assert response.json()


@pytest.mark.parametrize(
    ("accepted", "is_compressed"),
    [
        ("gzip", True),
        ("GZip", True),
        ("br, gzip;q=0.1, identity", True),
        ("*", True),
        ("*;q=0, gzip", True),
        ("", False),
        ("br", False),
        ("identity", False),
        ("gzip;q=0", False),
        ("gzip ; Q = 0.000", False),
        ("gzip;q=0, *", False),
        ("*;q=0", False),
        ("xgzip", False),
        (";", False),
        (",,", False),
    ],
)
def test_gzip_is_sent_only_to_who_takes_it(accepted, is_compressed):
    response = get(CATALOG, **{"Accept-Encoding": accepted})
    assert ("Content-Encoding" in response) == is_compressed


@pytest.mark.parametrize("path", [SCHEMA, CATALOG, HOOK])
def test_one_etag_stands_for_both_encodings(path):
    plain, small = get(path), get(path, **GZIP)
    assert plain["ETag"] == small["ETag"]
    assert plain["ETag"].startswith('W/"')
    for headers in ({}, GZIP):
        unchanged = get(path, **headers, **{"If-None-Match": small["ETag"]})
        assert unchanged.status_code == 304
        assert (unchanged["ETag"], unchanged["Vary"]) == (plain["ETag"], plain["Vary"])
        assert not unchanged.content


def test_the_answer_that_shows_a_token_is_not_compressed():
    browser = signed_in(a_desk().user, "password")
    minted = browser.post(TOKENS, {"scope": "desk"}, JSON, headers=GZIP)
    assert (minted.status_code, minted["Cache-Control"]) == (201, "no-store")
    assert "Content-Encoding" not in minted


def test_no_answer_that_a_cookie_opens_is_compressed():
    """Pages are not compressed either: their length could reveal a CSRF secret."""
    browser = signed_in(a_staff_user(), "password", "mfa")
    for _ in range(30):
        a_platform_token()
    assert len(browser.get(TOKENS).content) > SMALLEST
    for route in routes():
        answer = end_stream(browser.get(address(route), headers=GZIP))
        if "Content-Encoding" in answer:
            assert not hasattr(answer.wsgi_request, "session"), route
            assert not answer.cookies


def test_only_reading_is_compressed():
    assert "Vary" not in post(HOOK, b"{}", headers=GZIP)

"""Middleware for every request and response."""

import re

import pytest
from django.test import Client

from tests.client import CATALOG, EVENTS, HOOK, ME, code, get, post, signed_in
from tests.factories import a_platform_token, a_staff_user
from tokens.crypto import formats

pytestmark = [pytest.mark.django_db, pytest.mark.once]


# --- The request's id ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given", ["", "x" * 65, "a b", "a.b", "é", "a\n", "a\x00", "٣", "a,b", "<>"]
)
def test_an_unfit_request_id_is_replaced(given):
    response = get(ME, **{"X-Request-Id": given})
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", response["X-Request-Id"])
    assert response["X-Request-Id"] != given
    assert response.json()["requestId"] == response["X-Request-Id"]


@pytest.mark.parametrize("prefix", ["svc_desk_", "svc_plat_", "svc_sign_"])
def test_a_credential_is_no_request_id_and_is_neither_logged_nor_sent_back(prefix, capfd):
    value = formats.new(prefix)
    for given in (value, f"id_{value}", f"{value}-"):
        response = get(ME, **{"X-Request-Id": given})
        assert value not in response.text + response["X-Request-Id"]
    assert value not in capfd.readouterr().err
    mistyped = value[:-1] + ("a" if value[-1] != "a" else "b")
    assert get(ME, **{"X-Request-Id": mistyped})["X-Request-Id"] == mistyped


# --- Caches -------------------------------------------------------------------------------------


def test_no_answer_depends_on_another_precondition():
    for name in ("If-Match", "If-Unmodified-Since", "Range", "If-Range", "Expect"):
        for value in ('"x"', "Mon, 01 Jan 1990 00:00:00 GMT", "bytes=0-1", "\x00"):
            assert get(CATALOG, **{name: value}).status_code == 200, (name, value)


@pytest.mark.parametrize("path", [CATALOG, HOOK])
def test_the_public_pages_are_asked_after_by_any_form_of_an_etag(path):
    etag = get(path)["ETag"]
    for known in (etag, f'"other", {etag}', etag.removeprefix("W/"), "*"):
        assert get(path, **{"If-None-Match": known}).status_code == 304
    for unknown in ('"other"', "", "nonsense"):
        assert get(path, **{"If-None-Match": unknown}).status_code == 200


def test_what_is_private_is_never_answered_as_unchanged():
    token = a_platform_token()
    assert get(EVENTS, token, **{"If-None-Match": "*"}).status_code == 200


# --- Host and HTTPS -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["elsewhere.example", "", "a b", "testserver.evil.example", "é", "["]
)
def test_a_host_that_is_not_ours_is_refused_before_anything_else(host):
    for path in (CATALOG, "/api/v1/nothing", HOOK, "/nothing", "/accounts/login/"):
        response = post(path, b"x" * 65537, "nonsense", headers={"Host": host})
        if host:
            assert response.status_code == 400, path
            assert "host_invalid" in response.text or not path.startswith("/api/")
        else:
            assert response.status_code in (400, 404, 405, 413), path


def test_a_forwarded_protocol_is_nobodys_word_without_a_trusted_proxy(settings):
    settings.REQUIRE_HTTPS = True
    assert code(get(CATALOG, **{"X-Forwarded-Proto": "https"})) == "https_required"


def test_behind_a_trusted_proxy_its_word_on_the_protocol_counts(settings):
    settings.REQUIRE_HTTPS = True
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    assert get(CATALOG, **{"X-Forwarded-Proto": "https"}).status_code == 200
    assert code(get(CATALOG, **{"X-Forwarded-Proto": "http"})) == "https_required"


# --- Forms of pages -----------------------------------------------------------------------------


def login(fields: dict[str, str], query: str = ""):
    return Client(raise_request_exception=False).post(f"/accounts/login/{query}", fields)


@pytest.mark.parametrize("prefix", ["svc_desk_", "svc_plat_", "svc_sign_"])
def test_a_credential_of_this_service_in_a_free_text_of_a_page_is_refused(prefix):
    value = formats.new(prefix)
    for response in (
        login({"login": f"me {value}", "password": "x"}),
        login({"login": "me", "unknown": value}),
        login({"login": "me"}, f"?next={value}"),
    ):
        assert response.status_code == 422
        assert value[9:] not in response.text


@pytest.mark.parametrize("field", ["password", "password1", "oldpassword", "code"])
def test_where_a_person_types_a_secret_of_their_own_it_is_not_searched(field):
    response = login({"login": "me@example.com", field: formats.new("svc_desk_")})
    assert response.status_code == 200


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (
            "one_time_key",
            "RK5jtywMrka5PWD6wokGMQ:1xXbzD:DOvER1c2UGtRK0JLdLv9VHhG1YOimId5_O3aBUP2wB8",
        ),
        (
            "credential",
            '{"rawId":"5UgfRApIKEyYJED3IJSGxXhV64P56hfjLEz17EDmIGc0GDDpNVEvDJvQF1ClBP5"}',
        ),
    ],
)
def test_what_is_random_and_looks_like_a_secret_is_taken(field, value):
    """Both were made at random. Of 4,000 one-time keys, one holds the name of a password."""
    assert login({"login": "me@example.com", field: value}).status_code == 200


def test_a_nul_in_a_field_or_a_query_of_a_page_is_malformed():
    assert login({"login": "a\x00b"}).status_code == 400
    assert login({"login": "a"}, "?next=%00").status_code == 400
    staff = signed_in(a_staff_user(), "password", "mfa")
    assert staff.get("/control/?q=%00").status_code == 400


@pytest.mark.parametrize("path", ["/control/desks/card/%00/change/", "/accounts/%00/", "/%00"])
def test_a_nul_in_a_path_is_not_found(path):
    staff = signed_in(a_staff_user(), "password", "mfa")
    assert staff.get(path).status_code == 404


def test_a_cookie_with_a_nul_is_dropped():
    """A cookie in quotes may name any character by its number."""
    given = 'a="x\\000y"; b=z'
    browser = Client(headers={"Cookie": given})
    assert browser.get("/accounts/login/").wsgi_request.COOKIES == {"b": "z"}

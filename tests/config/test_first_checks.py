"""The first checks of the contract's order, from Host to the body's encoding, on every route.

The routes come from the URL map. Whatever is refused here is refused with its body unread.
"""

from typing import Any

import pytest
from django.test import Client
from django.urls import resolve

from config.middleware import methods_of
from tests import pages
from tests.client import Response, signed_in
from tests.factories import a_staff_user
from tests.routes import address, routes

pytestmark = [pytest.mark.django_db, pytest.mark.once]

STATIC_FILE = "/static/a.css"
# Where HEAD and OPTIONS are tried too.
OF_EACH_KIND = (STATIC_FILE, "/api/hooks/signal", "/accounts/login/", "/control/")
TOO_LARGE = 300 * 1024 * 1024
SMALL = 64 * 1024
EVERY_METHOD = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"}


class Unread:
    """A body that must not be read."""

    def __init__(self) -> None:
        self.was_read = False

    def read(self, *_: int) -> bytes:
        self.was_read = True
        return b""

    readline = read


@pytest.fixture
def browser(tmp_path, settings) -> Client:
    """Staff with a second factor and a CSRF cookie, so only the first checks refuse a form."""
    (tmp_path / "a.css").write_text("a {}")
    settings.STATIC_ROOT = tmp_path
    browser = signed_in(a_staff_user(), "password", "mfa", csrf=True)
    browser.cookies[settings.CSRF_COOKIE_NAME] = "x" * 32
    return browser


def ask(browser: Client, method: str, path: str, length: int = 0, **more: Any) -> Response:
    """Sends a multipart body of this length, and checks that none of it is read."""
    body = Unread()
    response = browser.generic(
        method,
        path,
        content_type="multipart/form-data; boundary=x",
        **{"wsgi.input": body, "CONTENT_LENGTH": str(length), **more},
    )
    assert not body.was_read, (method, path)
    return response


def code(response: Response) -> str | None:
    if response.get("Content-Type", "").startswith("application/problem+json"):
        return str(response.json()["code"])
    return pages.problem(response)


def nowhere(path: str) -> str:
    """A path without a route."""
    return path.replace("/api/", "/api/nowhere/", 1) if "/api/" in path else f"/nowhere{path}"


def every_path() -> list[str]:
    return [STATIC_FILE, *(address(route) for route in routes())]


def methods(path: str) -> set[str]:
    if path == STATIC_FILE:
        return {"GET", "HEAD", "OPTIONS"}
    return set(methods_of(resolve(path).func))


def test_an_address_leads_to_its_route():
    for route in routes():
        assert resolve(address(route)).route == route.replace("/^", "/")


def test_of_several_faults_the_first_of_the_order_is_told_and_no_body_is_read(browser):
    for path in every_path():
        host = {"headers": {"Host": "elsewhere.example"}}
        for expected, where, method, more in (
            ("host_invalid", nowhere(path), "PROPFIND", host),
            ("not_found", nowhere(path), "PROPFIND", {}),
            ("method_not_allowed", path, "PROPFIND", {}),
        ):
            assert code(ask(browser, method, where, TOO_LARGE, **more)) == expected, (
                path,
                expected,
            )


def test_too_large_of_unknown_length_and_encoded_are_refused_with_every_method_there_is(browser):
    for path in every_path():
        for method in methods(path) - (set() if path in OF_EACH_KIND else {"HEAD", "OPTIONS"}):
            refused = ask(browser, method, path, TOO_LARGE)
            chunked = ask(browser, method, path, headers={"Transfer-Encoding": "chunked"})
            packed = ask(browser, method, path, SMALL, headers={"Content-Encoding": "gzip"})
            if method == "HEAD":
                answers = refused, chunked, packed
                assert [answer.status_code for answer in answers] == [413, 411, 415], path
            else:
                assert code(refused) == "body_too_large", (method, path)
                assert code(chunked) == "length_required", (method, path)
                assert code(packed) == "unsupported_media_type", (method, path)
            assert packed["Accept-Encoding"] == "identity"


def test_another_method_is_405_with_what_there_is_before_a_forged_form_is_looked_at(browser):
    for path in every_path():
        for method in EVERY_METHOD - methods(path):
            refused = ask(browser, method, path, SMALL)
            assert refused.status_code == 405, (method, path)
            assert set(refused["Allow"].split(", ")) == methods(path)


def test_options_is_204_with_what_there_is_everywhere(browser):
    for path in every_path():
        answer = ask(browser, "OPTIONS", path)
        assert (answer.status_code, answer.content) == (204, b""), path
        assert set(answer["Allow"].split(", ")) == methods(path)
        assert "Content-Type" not in answer


def test_a_form_takes_no_file():
    body = (
        b'--x\r\nContent-Disposition: form-data; name="login"\r\n\r\nme\r\n'
        b'--x\r\nContent-Disposition: form-data; name="a"; filename="a"\r\n\r\nb\r\n--x--\r\n'
    )
    form: Any = {"data": body, "content_type": "multipart/form-data; boundary=x"}
    request = Client().post("/accounts/login/", **form).wsgi_request
    assert request.POST.dict() == {"login": "me"}
    assert not request.FILES


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    "path", ["/control", "/accounts/login", "/accounts/2fa", "/control/desks/card?q=x%26y"]
)
def test_where_only_the_slash_is_missing_a_reader_is_led_on(method, path):
    answer = Client().generic(method, path)
    there, question, query = path.partition("?")
    assert (answer.status_code, answer["Location"]) == (301, f"{there}/{question}{query}")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("path", ["/desk/", "/bots/?q=x%26y", "/problems/a%20b/", "/control//"])
def test_where_only_a_slash_is_too_much_a_reader_is_led_on(method, path):
    answer = Client().generic(method, path)
    there, question, query = path.partition("?")
    assert (answer.status_code, answer["Location"]) == (301, f"{there[:-1]}{question}{query}")


@pytest.mark.parametrize(
    "path", ["/api/v1/desks/", "/api/docs/", "/desk//", "/nothing/", "/accounts/nothing"]
)
def test_elsewhere_a_slash_makes_another_path(path):
    assert Client().get(path).status_code == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "OPTIONS"])
@pytest.mark.parametrize("path", ["/accounts/login", "/desk/connect/"])
def test_who_changes_something_is_not_led_on(method, path):
    assert Client().generic(method, path).status_code == 404


def test_there_is_no_page_of_the_control_area_with_a_slash_where_there_is_none_at_all(browser):
    assert browser.get("/control/no/such/page").status_code == 404

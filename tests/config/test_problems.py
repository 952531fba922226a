"""Every error → one problem body (contract, section 5)."""

import html
import logging
import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import DataError, InterfaceError, InternalError, OperationalError, connection
from django.http import HttpResponse
from django.test import Client, RequestFactory

from config.wsgi import application
from events.http.cursors import log_cursor
from events.http.refusals import Refused
from tests.client import CATALOG, DESKS, EVENTS, HOOK, ME, TOKENS, code, get, post, push, signed_in
from tests.factories import a_desk, a_platform_token
from tests.pages import source, words
from tests.signals.bodies import fanout
from tests.staff import a_client

pytestmark = [pytest.mark.django_db, pytest.mark.once]

SOMEBODY = "usr_" + "0" * 22


def served(path: str, **environ: Any) -> HttpResponse:
    """What the application itself answers: the client makes its own requests and cuts answers."""
    parts = urlsplit(path)
    bare = RequestFactory().get(parts.path).environ | {"QUERY_STRING": parts.query, **environ}
    response = application.get_response(application.request_class(bare))
    assert isinstance(response, HttpResponse)
    return response


# --- Methods ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [CATALOG, ME, "/api/v1/nothing", "/accounts/login/"])
@pytest.mark.parametrize("host", ["testserver", "elsewhere.example"])
def test_no_answer_to_head_leaves_the_application_with_a_body(path, host):
    assert served(path, HTTP_HOST=host).content != b""
    assert served(path, REQUEST_METHOD="HEAD", HTTP_HOST=host).content == b""


# --- The body of a problem ----------------------------------------------------------------------


def test_the_type_begins_with_the_setting_and_never_the_requests_host(settings):
    settings.BASE_URL = "https://signals.example"
    body = get(ME, Host="localhost").json()
    assert body["type"] == "https://signals.example/problems/credentials_missing"


def test_the_page_of_each_refusal_shows_its_title_and_its_sentence():
    visitor = Client()
    index = html.unescape(visitor.get("/problems").content.decode())
    for refusal in Refused.registry():
        page = html.unescape(visitor.get(f"/problems/{refusal.code}").content.decode())
        assert f"<h1>{refusal.title}</h1>" in page
        assert refusal.detail in page
        assert f'href="/problems/{refusal.code}"' in index
        assert refusal.title in index


def test_strange_paths_are_not_found():
    for path in (
        "/api/v1/desks/%00",
        "/api/v1/%ff%fe",
        "/api/v1/desks/usr_%ED%A0%80",
        "/api//v1",
        "/api/v1/../v1/x",
        "/api/v1/desks/usr_" + "0" * 5000,
        "/api/v1/desks/usr_" + "%D9%A3" * 22,
        "/api/v1/me%0a",
        "/api/v1/desks/{userId}",
        "/api/v1/me;x",
    ):
        for method in ("GET", "POST", "DELETE", "OPTIONS"):
            response = Client().generic(method, path)
            assert (response.status_code, code(response)) == (404, "not_found"), (method, path)


# --- Faults of ours, and a database that is away ------------------------------------------------


class Broken:
    """Returns a wrapper that raises a driver's error for every statement."""

    def __init__(self, exception: Exception) -> None:
        self.exception = exception

    def __call__(self, execute, sql, params, many, context):
        raise self.exception


@pytest.mark.parametrize("exception", [OperationalError, InterfaceError, InternalError])
def test_what_the_driver_raises_when_the_database_is_away_is_503(exception, caplog):
    token = a_platform_token()
    secret = "could not connect: password=kX9"
    with connection.execute_wrapper(Broken(exception(secret))):
        answers = [
            get(CATALOG),
            get(HOOK),
            get(DESKS, token),
            get(EVENTS, token),
            get(TOKENS, token),
            push(fanout(), token),
            push(fanout(), secret="x"),
            post(f"{DESKS}/{SOMEBODY}/signal", fanout(), token),
        ]
    for response in answers:
        assert (response.status_code, code(response)) == (503, "unavailable")
        assert response["Retry-After"] == "1"
        assert "kX9" not in response.text
    assert "kX9" not in caplog.text


@pytest.mark.parametrize(
    "exception", [DataError, ValueError, KeyError, RuntimeError, RecursionError]
)
def test_a_fault_of_ours_is_internal_and_tells_nothing_of_itself(exception, caplog):
    token = a_platform_token()
    with (
        caplog.at_level(logging.ERROR),
        connection.execute_wrapper(Broken(exception("at line 7 of our_file.py"))),
    ):
        answers = [get(CATALOG), get(DESKS, token), push(fanout(), token), get("/api/v1/tokens")]
    for response in answers[:3]:
        assert (response.status_code, code(response)) == (500, "internal")
        assert response["Content-Type"] == "application/problem+json"
        assert response["Cache-Control"] == "no-store"
        for word in ("Traceback", "our_file", exception.__name__):
            assert word not in response.text
    assert "our_file" in caplog.text  # but the operator sees it


# --- Forms that cannot be read ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("multipart/form-data", b"abc"),
        ("multipart/form-data; boundary=", b"abc"),
        ("multipart/form-data; boundary=\xff", b"abc"),
        ("multipart/form-data; boundary=x", b"--x\r\nnonsense"),
        ("multipart/form-data; boundary=x; charset=base64", b"--x--"),
        ("multipart/form-data; boundary*=base64''%41", b"--x--"),
        ("multipart/form-data; boundary=x", b"--x\r\nContent-Disposition: x; name*=a''b\r\n\r\n"),
        ("application/x-www-form-urlencoded", b"login=%00&password=%00"),
        ("application/x-www-form-urlencoded", b"login=%ff%fe"),
        ("application/x-www-form-urlencoded", b"&".join(b"a=1" for _ in range(2000))),
        ("application/x-www-form-urlencoded; charset=latin-1", b"login=x"),
        ("application/x-www-form-urlencoded; charset=base64", b"login=x"),
        ("text/plain; charset=undefined", b"x"),
        ("application/json", b"{"),
    ],
)
def test_a_page_that_gets_a_form_it_cannot_read_answers_from_the_table(content_type, body):
    response = post("/accounts/login/", body, content_type=content_type)
    assert response.status_code < 500


@pytest.mark.parametrize(
    "parameter",
    [
        "charset=base64",
        "charset=undefined",
        "charset=idna",
        "charset=\x00",
        "x*=nope''y",
        "x*=base64''%41",
        "charset*=;=",
    ],
)
@pytest.mark.parametrize("path", [f"{DESKS}?ready=1", f"{EVENTS}?limit=1", "/accounts/login/?x=1"])
def test_a_charset_or_other_parameter_means_nothing_however_strange(parameter, path):
    token = f"Bearer {a_platform_token()}"
    environ = {"CONTENT_TYPE": f"text/plain; {parameter}", "HTTP_AUTHORIZATION": token}
    assert served(path, **environ).status_code == 200


@pytest.mark.parametrize(
    ("path", "back"), [("/control/nowhere", "Control area"), ("/activity/nowhere", "Your desk")]
)
def test_a_refusal_leads_back_to_where_the_visitor_was(path, back):
    browser = a_client() if back == "Control area" else signed_in(a_desk().user)
    page = browser.get(path, headers={"accept": "text/html,application/xhtml+xml"})
    assert page.status_code == 404
    assert re.findall(r'class="button quiet" href="[^"]+">([^<]+)<', source(page)) == [back]


def test_a_page_says_of_a_form_without_its_token_what_a_person_can_do(desk):
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(desk.user)
    answer = browser.post("/bots", {"name": "Mine"})
    assert answer.status_code == 403
    assert "Your browser must accept cookies of this site." in words(answer)
    assert "X-CSRFToken" not in words(answer)


def test_a_customer_who_opens_the_control_area_is_led_to_the_desk(desk):
    answer = signed_in(desk.user).get("/control/")
    assert answer.status_code == 403
    assert "This is for staff." in words(answer)
    assert "Your desk" in words(answer)
    assert "Control area" not in words(answer)


@pytest.mark.parametrize(
    ("address", "status", "sentence"),
    [
        ("/webhooks/any/act", 405, "Go back, and use the link or the button that leads here."),
        (f"/activity?after={log_cursor('0' * 8, 1)}", 422, "Open the list again."),
    ],
)
def test_a_page_says_to_a_person_nothing_that_is_for_programs(desk, address, status, sentence):
    answer = signed_in(desk.user).get(address)
    assert answer.status_code == status
    assert sentence in words(answer)

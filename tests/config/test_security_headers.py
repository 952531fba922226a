"""Security headers on every response: each route, each refusal, each layer."""

import re
import socket

import httpx2
import pytest
from django.db import OperationalError
from django.test import Client, override_settings

from config import security_headers
from desks.models import Desk
from events.models import Head
from tests import staff
from tests.client import Response, end_stream
from tests.routes import address, routes
from tests.server import Server, serving

pytestmark = [pytest.mark.django_db, pytest.mark.once]

NEEDED = {
    "Content-Security-Policy": re.compile(
        r"default-src 'none'; script-src 'self'; style-src 'self'; .*frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": re.compile("same-origin"),
    "Cross-Origin-Resource-Policy": re.compile("same-origin"),
    "Permissions-Policy": re.compile(r"(?:[a-z-]+=\(\)(?:, )?)+"),
    "Referrer-Policy": re.compile("same-origin"),
    "X-Content-Type-Options": re.compile("nosniff"),
    "X-Frame-Options": re.compile("DENY"),
}
HSTS = "max-age=31536000; includeSubDomains; preload"


def lacking(response: Response | httpx2.Response) -> list[str]:
    """Returns the security headers that a response lacks or has with another value."""
    return [
        name
        for name, form in NEEDED.items()
        if not form.fullmatch(str(response.headers.get(name, "")))
    ]


@pytest.fixture
def https():
    """The settings of a deployment, which the middleware reads too."""
    hsts = {"SECURE_HSTS_INCLUDE_SUBDOMAINS": True, "SECURE_HSTS_PRELOAD": True}
    with override_settings(
        REQUIRE_HTTPS=True, SECURE_SSL_REDIRECT=True, SECURE_HSTS_SECONDS=31536000, **hsts
    ):
        yield


@pytest.fixture
def browsers_of(https, desk: Desk) -> list[Client]:
    """An anonymous browser, a customer's and a staff user's."""
    nobody = Client(raise_request_exception=False)
    customer = staff.a_client(desk.user, "password", raise_request_exception=False)
    return [nobody, customer, staff.a_client(raise_request_exception=False)]


# --- In process ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST", "BREW"])
def test_every_route_answers_everybody_with_all_of_them(browsers_of, method):
    without = {}
    for route in routes():
        for browser in browsers_of if method == "GET" else browsers_of[:1]:
            response = end_stream(browser.generic(method, address(route), secure=True))
            if lacking(response) or response["Strict-Transport-Security"] != HSTS:
                without[route] = lacking(response)
    assert without == {}


def test_each_way_of_saying_no_has_them(https, monkeypatch, caplog):
    sender = Client(raise_request_exception=False)
    too_large, elsewhere = b"x" * 65537, {"Host": "elsewhere.example"}
    chunked = {"Transfer-Encoding": "chunked"}
    answers = {
        "a page's host": (400, sender.get("/", secure=True, headers=elsewhere)),
        "the API's host": (400, sender.get("/api/v1", secure=True, headers=elsewhere)),
        "plain HTTP to the API": (403, sender.get("/api/v1")),
        "plain HTTP to a page": (301, sender.get("/")),
        "no credential": (401, sender.get("/api/v1/me", secure=True)),
        "no such page": (404, sender.get("/no/such", secure=True)),
        "no such path": (404, sender.get("/api/no/such", secure=True)),
        "a NUL": (404, sender.get("/%00", secure=True)),
        "another method": (405, sender.delete("/", secure=True)),
        "no length": (411, sender.post("/accounts/login/", {}, secure=True, headers=chunked)),
        "a large form": (
            413,
            sender.generic("POST", "/accounts/login/", too_large, "text/plain", secure=True),
        ),
        "a large body": (413, sender.generic("POST", "/api/hooks/signal", too_large, secure=True)),
        "not changed": (304, sender.get("/problems", secure=True, headers={"If-None-Match": "*"})),
    }
    for status, fault in ((500, RuntimeError), (503, OperationalError)):
        monkeypatch.setattr(Head.objects, "exists", _failing(fault))
        answers[f"a fault, {status}"] = (status, sender.get("/readyz", secure=True))
        monkeypatch.setattr("desks.models.Card.objects.published", _failing(fault))
        answers[f"a page's fault, {status}"] = (status, sender.get("/", secure=True))
    for name, (status, response) in answers.items():
        assert (name, response.status_code, lacking(response)) == (name, status, [])


def _failing(fault):
    def fail(*_args: object) -> None:
        raise fault

    return fail


def test_plain_http_promises_nothing_of_https():
    assert "Strict-Transport-Security" not in Client().get("/")


def test_the_policy_lets_nothing_in_that_stands_in_a_page():
    assert "unsafe" not in security_headers.CONTENT_SECURITY_POLICY
    assert "*" not in security_headers.CONTENT_SECURITY_POLICY
    assert "http" not in security_headers.CONTENT_SECURITY_POLICY


def test_what_is_told_on_the_next_page_waits_in_the_session_and_in_no_cookie_of_its_own(desk):
    customer = staff.a_client(desk.user, "password")
    assert set(customer.post("/desk/withdraw").cookies) <= {"session", "csrf"}
    assert "Your election on the published card is withdrawn." in customer.get("/desk").text


# --- Served --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server():
    """A server as deployed: HTTPS required, behind a proxy, whose part the test plays."""
    with serving(WEB_CONCURRENCY="1", REQUIRE_HTTPS="on", TRUSTED_PROXIES="1") as server:
        yield server


def ask(server: Server, path: str, **headers: str) -> httpx2.Response:
    proxied = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.7", **headers}
    return httpx2.get(server.base_url + path, headers=proxied, trust_env=False)


@pytest.mark.processes
def test_gunicorn_hands_all_of_them_out_with_files_and_foreign_hosts_too(server):
    home = ask(server, "/")
    css = re.search(r'href="(/static/css/site[^"]+)"', home.text)
    assert css
    file, foreign = ask(server, css.group(1)), ask(server, "/", Host="elsewhere.example")
    assert (file.status_code, foreign.status_code) == (200, 400)
    for response in (home, file, foreign, ask(server, "/api/v1"), ask(server, "/no/such")):
        assert lacking(response) == []
        assert response.headers["Strict-Transport-Security"] == HSTS
    assert "Access-Control-Allow-Origin" not in file.headers


@pytest.mark.processes
def test_what_gunicorn_refuses_by_itself_has_them(server):
    port = int(server.base_url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(b"nonsense\r\n\r\n")
        head, _, body = b"".join(iter(lambda: client.recv(65536), b"")).partition(b"\r\n\r\n")
    lines = [line.split(": ", 1) for line in head.decode().split("\r\n")[1:]]
    response = httpx2.Response(400, headers=dict(lines), content=body)
    assert lacking(response) == []
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert int(response.headers["Content-Length"]) == len(body)


@pytest.mark.processes
def test_plain_http_is_refused_by_the_api_and_redirected_elsewhere(server):
    plain = {"X-Forwarded-Proto": "http"}
    api, page = ask(server, "/api/v1", **plain), ask(server, "/", **plain)
    assert (api.status_code, api.json()["code"]) == (403, "https_required")
    assert (page.status_code, page.headers["Location"][:8]) == (301, "https://")


@pytest.mark.processes
def test_the_cookies_are_bound_to_this_host_and_to_https(server):
    origin = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.7"}
    user, https = server.seed["user"], server.base_url.replace("http", "https")
    with httpx2.Client(base_url=server.base_url, headers=origin, trust_env=False) as client:
        form = client.get("/accounts/login/")
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form.text)
        assert token
        csrf = form.headers["Set-Cookie"]
        sent = {"login": user["email"], "password": user["password"]}
        signed_in = client.post(
            "/accounts/login/",
            data={**sent, "csrfmiddlewaretoken": token.group(1)},
            headers={"Cookie": csrf.partition(";")[0], "Referer": https + "/"},
        )
    session = [c for c in signed_in.headers.get_list("Set-Cookie") if c.startswith("__Host-s")]
    assert signed_in.status_code == 302
    assert csrf.startswith("__Host-csrf=")
    assert len(session) == 1
    for cookie in (csrf, *session):
        parts = cookie.lower().split("; ")
        assert {"secure", "path=/"} <= set(parts)
        assert {"samesite=lax", "samesite=strict"} & set(parts)
        assert not any(part.startswith("domain") for part in parts)
    assert "httponly" in session[0].lower()
    assert "httponly" not in csrf.lower()  # the contract's X-CSRFToken is read from it
    names = {c.partition("=")[0] for c in signed_in.headers.get_list("Set-Cookie")}
    assert all(name.startswith("__Host-") for name in names)

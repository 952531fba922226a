"""Section 4, its head: what every answer carries, and the methods of every path."""

import re

import pytest

from tests.conformance.browser import CSRF_FIELD, SHOWN
from tests.conformance.client import (
    BOTS,
    CATALOG,
    CHECK,
    DESKS,
    EVENTS,
    HOOK,
    ME,
    NO_SIGNAL,
    SIGNALS,
    SOMEBODY,
    SUBSCRIPTIONS,
    TOKENS,
    assert_refused,
    bearer,
    deploy_path,
)

pytestmark = pytest.mark.once

METHODS = {
    CATALOG: {"GET", "HEAD", "OPTIONS"},
    ME: {"GET", "HEAD", "OPTIONS"},
    DESKS: {"GET", "HEAD", "OPTIONS"},
    f"{DESKS}/{SOMEBODY}": {"GET", "HEAD", "OPTIONS"},
    deploy_path(SOMEBODY): {"POST", "OPTIONS"},
    EVENTS: {"GET", "HEAD", "OPTIONS"},
    TOKENS: {"GET", "HEAD", "POST", "DELETE", "OPTIONS"},
    HOOK: {"GET", "HEAD", "POST", "OPTIONS"},
    CHECK: {"POST", "OPTIONS"},
    BOTS: {"GET", "HEAD", "OPTIONS"},
    SIGNALS: {"GET", "HEAD", "OPTIONS"},
    f"{SIGNALS}/{NO_SIGNAL}": {"GET", "HEAD", "OPTIONS"},
}
EVERY_METHOD = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"}
REQUEST_ID = "X-Request-Id"
TIMES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def named(header):
    return {name.strip() for name in header.split(",")}


@pytest.mark.parametrize("path", METHODS)
def test_options_answers_204_with_what_there_is(service, path):
    """Section 4: OPTIONS answers 204 with Allow, to anybody."""
    answer = service.http.options(path)
    assert (answer.status_code, answer.content) == (204, b"")
    assert named(answer.headers["Allow"]) == METHODS[path]


@pytest.mark.parametrize("path", METHODS)
def test_another_method_answers_405_with_what_there_is(service, path):
    """Section 4; section 5's order: before any credential is looked at."""
    for method in sorted(EVERY_METHOD - METHODS[path]):
        answer = service.send(method, path, token="nonsense")
        if method != "HEAD":
            assert_refused(answer, 405, "method_not_allowed")
        assert answer.status_code == 405
        assert named(answer.headers["Allow"]) == METHODS[path], method


@pytest.mark.parametrize("path", [CATALOG, HOOK, ME, EVENTS, TOKENS])
def test_head_works(service, path):
    """Section 4: the headers of GET, and no body."""
    head = service.http.head(path, headers={"Authorization": f"Bearer {service.desk_token}"})
    get = service.get(path, service.desk_token)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["Content-Type"] == get.headers["Content-Type"]
    assert head.headers["Cache-Control"] == get.headers["Cache-Control"]


@pytest.mark.parametrize("path", [CATALOG, HOOK, "/api/schema", "/problems"])
def test_head_has_the_etag_of_get(service, path):
    """Section 4: and honours If-None-Match."""
    etag = service.get(path).headers["ETag"]
    assert service.http.head(path).headers["ETag"] == etag
    answer = service.http.head(path, headers={"If-None-Match": etag})
    assert (answer.status_code, answer.content) == (304, b"")


def test_pages_and_static_files_know_their_methods_too(service):
    """Section 4: on every path; the method comes before the CSRF check."""
    style = re.search(r'href="(/static/[^"]+\.css)"', service.get("/").text).group(1)
    reading = {"GET", "HEAD", "OPTIONS"}
    for path, methods in (
        ("/healthz", reading),
        (style, reading),
        ("/api/docs", reading),
        ("/desk/withdraw", reading | {"POST"}),
        ("/accounts/login/", reading | {"POST"}),
        ("/control/", reading | {"POST"}),
    ):
        options, put = service.http.options(path), service.http.put(path)
        assert (options.status_code, options.content, put.status_code) == (204, b"", 405), path
        assert named(options.headers["Allow"]) == named(put.headers["Allow"]) == methods


@pytest.mark.parametrize(
    ("path", "page"),
    [("/control", "/control/"), ("/accounts/login", "/accounts/login/"), ("/bots/", "/bots")],
)
def test_another_last_slash_leads_to_the_page(service, path, page):
    for answer in (service.http.get(path), service.http.head(path)):
        assert (answer.status_code, answer.headers["Location"]) == (301, page)


@pytest.mark.parametrize("path", [CATALOG, HOOK, EVENTS, DESKS])
def test_a_large_answer_is_compressed_where_the_client_asks(service, path):
    """Section 4: the same in fewer bytes, for HEAD as for GET."""
    asked = {**bearer(service.platform), "Accept-Encoding": "gzip"}
    plain = {**asked, "Accept-Encoding": "identity"}
    query = {"limit": 20} if path in (EVENTS, DESKS) else None
    small, whole = (
        service.http.get(path, params=query, headers=headers) for headers in (asked, plain)
    )
    head = service.http.head(path, params=query, headers=asked)
    assert small.headers["Content-Encoding"] == head.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in whole.headers
    assert small.json() == whole.json()
    assert small.headers["Content-Length"] == str(small.num_bytes_downloaded)
    for answer in (small, whole, head):
        assert "Accept-Encoding" in answer.headers["Vary"]
        assert answer.headers.get("ETag") == whole.headers.get("ETag")


@pytest.mark.parametrize(
    "path", [CATALOG, ME, EVENTS, TOKENS, "/", "/accounts/login/", "/healthz", "/no/such", "/desk"]
)
def test_an_answer_has_its_length(service, path):
    """Section 4: refusals and redirects too, and of HEAD the length of GET."""
    for token in (None, service.platform):
        plain = {"Accept-Encoding": "identity", **(bearer(token) if token else {})}
        answer = service.http.get(path, headers=plain)
        assert answer.headers["Content-Length"] == str(len(answer.content))
        assert "Transfer-Encoding" not in answer.headers
        head = service.http.head(path, headers=plain)
        assert head.headers["Content-Length"] == answer.headers["Content-Length"]


@pytest.mark.parametrize("path", [TOKENS, "/api/docs", "/", "/accounts/login/"])
def test_where_cookies_count_nothing_is_compressed(service, path):
    headers = {**bearer(service.platform), "Accept-Encoding": "gzip"}
    assert "Content-Encoding" not in service.http.get(path, headers=headers).headers


def test_what_a_session_reads_at_the_api_is_not_compressed(service, admin):
    """Section 4: except at /api/v1/tokens and /api/v1/subscriptions."""
    for path in (TOKENS, SUBSCRIPTIONS):
        answer = admin.http.get(path, headers={"Accept-Encoding": "gzip"})
        assert "Content-Encoding" not in answer.headers
    assert len(admin.get(TOKENS).content) >= 1400


def test_an_answer_that_shows_a_credential_is_not_compressed(user, bot):
    """Section 4: neither the value of a token nor the page with a secret."""
    asked = {"Accept-Encoding": "gzip"}
    minted = user.api("POST", TOKENS, {"scope": "desk"}, **asked)
    assert minted.json()["token"]
    assert "Content-Encoding" not in minted.headers
    page = f"{bot.page}/secret"
    field = CSRF_FIELD.search(user.get(page).text)
    assert field
    headers = {**asked, "Referer": user.service.base_url + page}
    shown = user.http.post(page, data={"csrfmiddlewaretoken": field.group(1)}, headers=headers)
    assert SHOWN.search(shown.text)
    assert "Content-Encoding" not in shown.headers


@pytest.mark.parametrize("given", ["a", "A-z_09", "x" * 64])
def test_a_fit_request_id_of_the_callers_is_kept(service, given):
    """Section 4: 1 to 64 of A-Za-z0-9_-."""
    for path in (CATALOG, ME, "/no/such/path"):
        answer = service.get(path, headers={REQUEST_ID: given})
        assert answer.headers[REQUEST_ID] == given


def test_an_unfit_request_id_and_a_credential_are_replaced(service):
    """Section 4: else a new one."""
    made = set()
    for given in ("x" * 65, "a b", service.platform):
        answer = service.get(ME, headers={REQUEST_ID: given})
        assert given not in answer.text
        assert answer.headers[REQUEST_ID] != given
        assert re.fullmatch("[A-Za-z0-9_-]{1,64}", answer.headers[REQUEST_ID])
        assert answer.json()["requestId"] == answer.headers[REQUEST_ID]
        made.add(answer.headers[REQUEST_ID])
    assert len(made) == 3


@pytest.mark.parametrize(
    "given",
    [
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        "x" * 1000,
    ],
)
def test_a_traceparent_changes_no_answer(service, given):
    """Section 4: any other value is ignored."""
    traced = {"traceparent": given, "tracestate": given}
    assert service.get(CATALOG, headers=traced).json() == service.get(CATALOG).json()


@pytest.mark.parametrize(
    "path", [ME, DESKS, EVENTS, TOKENS, "/", "/accounts/login/", "/healthz", "/no/such"]
)
def test_nothing_else_is_stored_by_a_cache(service, path):
    """Section 4: no-store on everything but static files and the public pages."""
    answer = service.get(path, service.platform)
    assert "no-store" in answer.headers["Cache-Control"]


def test_what_a_static_file_says_of_caches_is_its_own(service):
    """Section 4: but static files."""
    home = service.get("/").text
    address = re.search(r'href="(/static/[^"]+\.css)"', home).group(1)
    answer = service.get(address)
    assert answer.status_code == 200
    assert "no-store" not in answer.headers["Cache-Control"]


@pytest.mark.parametrize("path", [CATALOG, HOOK, ME, EVENTS])
def test_there_is_no_cors(service, path):
    """Section 4: no answer lets another site's script read it."""
    origin = {"Origin": "https://elsewhere.example", "Access-Control-Request-Method": "GET"}
    for answer in (service.get(path, headers=origin), service.http.options(path, headers=origin)):
        assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_times_are_rfc_3339_in_utc_with_milliseconds(service):
    desk = service.get(ME, service.desk_token).json()
    event = service.get(EVENTS, service.platform, limit=1).json()["events"][0]
    token = service.get(TOKENS, service.platform).json()["tokens"][0]
    times = [desk["createdAt"], desk["updatedAt"], desk["connection"]["connectedAt"]]
    times += [desk["election"]["electedAt"], event["at"], token["createdAt"]]
    assert all(TIMES.fullmatch(time) for time in times)


def test_json_is_utf_8(service):
    """The contract's head: bodies are UTF-8 JSON objects."""
    answer = service.get(CATALOG)
    assert answer.headers["Content-Type"] == "application/json"
    assert isinstance(answer.json(), dict)
    answer.content.decode("utf-8")

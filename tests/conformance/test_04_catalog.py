"""Section 4, GET /api/v1 and GET /api/hooks/signal: the public pages that describe the rest."""

import hashlib
import hmac
import json

import pytest

from tests.conformance.client import (
    CATALOG,
    HOOK,
    assert_refused,
    deploy_path,
    nonce,
)

pytestmark = pytest.mark.once

PUBLIC = [CATALOG, HOOK]
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
# Section 5, the table: every code, and its status.
CODES = {
    "malformed": 400,
    "host_invalid": 400,
    "credentials_missing": 401,
    "token_invalid": 401,
    "signature_missing": 401,
    "signature_invalid": 401,
    "timestamp_invalid": 401,
    "floor_secret_refused": 401,
    "scope_missing": 403,
    "not_allowed": 403,
    "sign_in_required": 403,
    "csrf_failed": 403,
    "second_factor_required": 403,
    "reauthentication_required": 403,
    "https_required": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "not_acceptable": 406,
    "length_required": 411,
    "body_too_large": 413,
    "unsupported_media_type": 415,
    "nonce_used": 409,
    "made_already": 409,
    "idempotency_key_reused": 409,
    "exchange_secret": 422,
    "ticker_only": 422,
    "mode_refused": 422,
    "not_elected": 422,
    "invalid": 422,
    "pair_mismatch": 422,
    "direction_mismatch": 422,
    "signal_too_old": 422,
    "no_election": 422,
    "no_card": 422,
    "desk_not_ready": 422,
    "cursor_lost": 422,
    "rate_limited": 429,
    "internal": 500,
    "unavailable": 503,
}
HEADERS = ["Authorization", "X-SVC-Timestamp", "X-SVC-Signature"]


def catalog(service):
    return service.get(CATALOG).json()


def contract(service):
    return service.get(HOOK).json()


def filled(sample, **values):
    """The sample with what only the sender knows filled in."""
    text = json.dumps(sample["body"])
    for name, value in values.items():
        text = text.replace(f"<{name}>", value)
    return json.loads(text)


# --- The catalog ---------------------------------------------------------------------------------


def test_the_catalog_has_the_customers_fields(service):
    """The customer's section 4: these; strings, but for the card and the headers."""
    found = catalog(service)
    assert (found["paper"], found["liveWrites"]) == (True, False)
    parts = {"law", "paths", "auth", "forUsers", "forEngine", "plug"}
    assert set(found) == {"paper", "liveWrites", *parts, "morePaths", "schema"}
    assert isinstance(found["law"], str)
    assert isinstance(found["auth"], str)
    texts = {**found["forUsers"], **found["forEngine"], **found["plug"]}
    assert set(texts.pop("publishedCard")) == {"name", "pair", "direction"}
    assert texts.pop("headers") == HEADERS
    assert all(isinstance(text, str) for text in texts.values())
    assert set(found["forUsers"]) == {"mint", "pull", "webhook"}
    assert set(found["forEngine"]) == {"mint", "pull", "oneDesk", "deploy", "fanout"}
    assert set(found["plug"]) == {
        "publishedCard",
        "pull",
        "oneUser",
        "push",
        "events",
        "headers",
        "note",
    }


def test_the_catalogs_paths_are_these(service):
    """The customer's section 4: these names and no other, each with a METHOD path."""
    assert catalog(service)["paths"] == PATHS


def test_what_else_there_is_stands_apart_beside_a_link_to_the_schema(service):
    """Section 4: every other operation, by its operationId."""
    found = catalog(service)
    assert found["schema"] == f"{service.base_url}/api/schema"
    schema = service.get("/api/schema", headers={"Accept": "application/json"}).json()
    operations = {
        operation["operationId"]: f"{method.upper()} {path}"
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    }
    assert found["morePaths"] == {
        name: path for name, path in operations.items() if path not in PATHS.values()
    }
    assert {path.partition("?")[0] for path in PATHS.values()} <= set(operations.values())
    assert found["morePaths"]["checkSignal"] == "POST /api/hooks/check"


def test_the_law_says_what_live_execution_would_need_and_whose_nonces_are(service):
    """Section 4: in the catalog and in the contract; the customer's section 1, 4."""
    law = catalog(service)["law"]
    assert (
        "live execution would need the owner to arm a local vault, a store of exchange keys" in law
    )
    assert "modes armed and live are refused" in law
    assert "A nonce is single-use within its signer" in law
    assert contract(service)["law"] == law


def test_the_catalogs_paths_are_there(service):
    """The customer's section 4: none of them answers 404 or 405."""
    for path in PATHS.values():
        method, _, address = path.partition(" ")
        answer = service.send(method, address.format(userId=service.desk))
        assert answer.status_code in (200, 401, 403), path


# --- The contract --------------------------------------------------------------------------------


def test_the_contract_has_the_customers_fields(service):
    """The customer's section 4, and what section 4 adds."""
    found = contract(service)
    assert (found["paper"], found["liveWrites"]) == (True, False)
    assert (found["path"], found["url"]) == (HOOK, service.base_url + HOOK)
    assert found["headers"] == HEADERS
    assert isinstance(found["law"], str)
    assert found["publishedCard"] == service.seed["card"]
    for name in ("tv", "fanout", "oneDesk", "oneUser", "floor", "nox"):
        assert set(found[name]) == {"note", "path", "body"}
    assert {"signing", "refusals"} <= set(found)


def test_the_samples_are_of_the_shapes_and_paths_that_the_contract_says(service):
    """Section 4: shape 2 on the deploy path and, with userId, on the hook; shape 3 without and
    with userId."""
    found = contract(service)
    one_desk, floor = found["oneDesk"], found["floor"]
    assert one_desk["path"] == "/api/v1/desks/{userId}/signal"
    customers = {"pair", "direction", "nonce", "elected", "source", "mode"}
    assert set(one_desk["body"]) == customers
    assert set(floor["body"]) == customers | {"userId"}
    assert "userId" not in found["fanout"]["body"]
    assert found["fanout"]["body"]["fanout"] is found["oneUser"]["body"]["fanout"] is True
    assert "userId" in found["oneUser"]["body"]
    assert {found[name]["path"] for name in ("tv", "fanout", "oneUser", "floor", "nox")} == {HOOK}
    assert [found[n]["body"]["source"] for n in ("tv", "floor", "nox")] == [
        "tradingview",
        "floor",
        "nox",
    ]


@pytest.mark.parametrize("name", ["fanout", "oneUser", "floor", "oneDesk", "nox"])
def test_a_sample_is_accepted_with_its_ids_and_nonce_filled_in(service, name):
    """Section 4: the samples are real, with the published card's pair and direction."""
    sample = contract(service)[name]
    assert "It needs " in sample["note"]
    values = {"nonce": nonce(), "trace": nonce(), "userId": service.desk}
    path = sample["path"].replace("{userId}", service.desk)
    answer = service.send("POST", path, filled(sample, **values), service.platform)
    assert answer.status_code == 200, answer.text
    assert answer.json()["ignored"] == []


def test_the_sample_of_an_automation_needs_a_bot_that_has_elected_what_it_shows(service, bot):
    """Section 4: it shows the card's pair and direction."""
    secret, sample = bot.generate(), contract(service)["tv"]
    assert "It needs " in sample["note"]
    bot.elect("AAA/BBB", "long")
    other = service.push(filled(sample, botId=bot.id, nonce=nonce()), secret=secret)
    assert_refused(other, 422, "pair_mismatch")
    bot.elect(**service.elected)
    answer = service.push(filled(sample, botId=bot.id, nonce=nonce()), secret=secret)
    assert (answer.status_code, answer.json()["ignored"]) == (200, [])


def test_the_worked_example_of_signing_works(service):
    """Section 4: signing, with one test vector."""
    vector = contract(service)["signing"]["vector"]
    message = f"{vector['timestamp']}.{vector['body']}".encode()
    made = hmac.new(vector["secret"].encode(), message, hashlib.sha256).hexdigest()
    assert vector["signature"] == f"v1={made}"
    assert len(vector["timestamp"]) == 10


def test_the_contract_lists_every_refusal_with_its_meaning(service):
    """Sections 4 and 5: every code and no other."""
    listed = contract(service)["refusals"]
    assert {refusal["code"]: refusal["status"] for refusal in listed} == CODES
    assert all(refusal["title"] and refusal["detail"] for refusal in listed)


def test_a_refusal_has_a_page_that_explains_it(service):
    """Section 5: what type points to; section 4: public, with an ETag."""
    page = service.get("/problems/pair_mismatch")
    assert page.status_code == 200
    assert page.headers["Content-Type"].startswith("text/html")
    assert page.headers["Cache-Control"] == "public, no-cache"
    assert "pair_mismatch" in page.text
    again = service.get("/problems/pair_mismatch", headers={"If-None-Match": page.headers["ETag"]})
    assert again.status_code == 304


# --- For browsers --------------------------------------------------------------------------------

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
JAVA = "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"


@pytest.mark.parametrize("path", PUBLIC)
def test_a_browser_gets_a_page_with_the_security_headers_and_no_cookie(service, path):
    """Section 4: the page for browsers, the same for everyone."""
    page = service.get(path, headers={"Accept": BROWSER})
    assert page.status_code == 200
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert "Set-Cookie" not in page.headers
    assert all(code in page.text for code in CODES)
    assert contract(service)["signing"]["vector"]["signature"] in page.text


@pytest.mark.parametrize("path", PUBLIC)
@pytest.mark.parametrize("accept", ["*/*", JAVA])
def test_every_other_client_gets_the_same_json(service, path, accept):
    """Section 4: byte for byte, whatever else the client accepts."""
    plain = service.get(path, headers={"Accept": ""})
    answer = service.get(path, headers={"Accept": accept.encode("latin-1")})
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.content == plain.content
    assert answer.headers["ETag"] == plain.headers["ETag"]


@pytest.mark.parametrize("path", PUBLIC)
def test_each_form_has_an_etag_of_its_own(service, path):
    """Section 4: Vary: Accept; 304 for the same form only; HEAD as GET."""
    forms = {accept: service.get(path, headers={"Accept": accept}) for accept in ("*/*", BROWSER)}
    assert len({answer.headers["ETag"] for answer in forms.values()}) == 2
    for accept, answer in forms.items():
        assert "Accept" in answer.headers["Vary"].split(", ")
        assert answer.headers["Cache-Control"] == "public, no-cache"
        for other in forms.values():
            asked = {"Accept": accept, "If-None-Match": other.headers["ETag"]}
            again = service.get(path, headers=asked)
            assert again.status_code == (304 if other is answer else 200)
        head = service.http.head(path, headers={"Accept": accept})
        assert (head.headers["ETag"], head.content) == (answer.headers["ETag"], b"")
        assert head.headers["Content-Type"] == answer.headers["Content-Type"]


def test_a_refusal_is_a_problem_body_for_browsers_too(service):
    answer = service.http.delete(CATALOG, headers={"Accept": BROWSER})
    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
    assert answer.headers["Content-Type"] == "application/problem+json"


# --- Both ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PUBLIC)
def test_the_public_pages_do_not_ask_who_is_calling(service, path):
    """Section 4: public, whatever credential comes along."""
    assert service.get(path, headers={"Authorization": "Bearer x"}).status_code == 200
    assert service.get(path, service.desk_token).json() == service.get(path).json()


def test_addresses_come_from_the_base_address_and_never_from_the_host(service):
    """The contract's head: BASE_URL and never the request's Host, or what a proxy says of it."""
    hosts = {"Host": f"{service.http.base_url.host}:1"}, {"X-Forwarded-Host": "elsewhere.example"}
    for headers in hosts:
        answer = service.get(HOOK, headers=headers)
        assert answer.json()["url"] == service.base_url + HOOK


def test_the_contract_names_the_paths_without_a_trailing_slash(service):
    """The contract's head: paths carry no trailing slash."""
    for path in (CATALOG, HOOK, "/api/v1/me", "/api/v1/desks", deploy_path(service.desk)):
        assert service.get(f"{path}/").status_code == 404

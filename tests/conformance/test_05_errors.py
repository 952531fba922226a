"""Section 5: every refusal has the same form, and any bytes on any path get an answer."""

import gzip
import time

import pytest

from tests.conformance.client import (
    CATALOG,
    DESKS,
    EVENTS,
    HOOK,
    ME,
    SIGNALS,
    TOKENS,
    assert_refused,
    bearer,
    deploy_path,
    signed,
    written,
)
from tests.conformance.credentials import credential

pytestmark = pytest.mark.once

LIMIT = 64 * 1024
CONTINUE = b"HTTP/1.1 100 "


def of_length(body, length):
    """The body, padded to so many bytes."""
    text = written({**body, "padding": ""})
    return text[:-2] + b"x" * (length - len(text)) + text[-2:]


def raw(service, method, target, body=b"", **headers):
    """Sends a request with unescaped target and header bytes. Returns the status and the text."""
    connection = service.connection()
    try:
        connection.putrequest(method, "/", skip_host="Host" in headers)
        connection._buffer[0] = method.encode() + b" " + target + b" HTTP/1.1"  # type: ignore[attr-defined]
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


# --- 400 -----------------------------------------------------------------------------------------

DEEP = b'{"a":' * 16 + b"1" + b"}" * 16
MALFORMED = {
    "an array": b"[]",
    "not UTF-8": b'{"a":"\xff"}',
    "a byte order mark": b"\xef\xbb\xbf{}",
    "a repeated key": b'{"a":1,"\\u0061":2}',
    "NaN": b'{"a":NaN}',
    "deeper than 16": b'{"a":' + DEEP + b"}",
    "NUL": b'{"a":"\\u0000"}',
    "a lone surrogate": b'{"a":["\\ud800"]}',
}


@pytest.mark.parametrize("what", MALFORMED)
def test_what_is_not_one_plain_json_object_is_malformed(service, what):
    """400 malformed, on the hook, with a token or a signature, and on the deploy."""
    body = MALFORMED[what]
    assert_refused(service.push(body, service.platform), 400, "malformed")
    assert_refused(service.push(body, secret=service.floor), 400, "malformed")
    assert_refused(service.deploy(service.desk, body), 400, "malformed")


def test_16_levels_are_not_too_deep(service):
    """400 malformed: the body is 1."""
    assert_refused(service.push(DEEP, service.platform), 422, "not_elected")


@pytest.mark.parametrize("host", ["elsewhere.example", "", "127.0.0.1.evil"])
def test_another_host_is_not_served(service, host):
    """400 host_invalid; first in the order, also where there is no such path."""
    for path in (CATALOG, HOOK, "/api/v1/no/such"):
        answer = service.http.get(path, headers={"Host": host})
        assert_refused(answer, 400, "host_invalid")
    assert service.http.get("/", headers={"Host": host}).status_code == 400


# --- 404 to 415 ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/x",
        "/api/v1/desks/",
        "/api/v1/me%00",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
def test_there_is_no_such_path(service, path, method):
    """404 not_found, before the method and whoever calls."""
    assert_refused(service.send(method, path, token="x"), 404, "not_found")


@pytest.mark.parametrize("path", ["/no/such", "/api", "/%00", "/desk//", "/problems/x", "/%ff"])
def test_elsewhere_it_is_a_page(service, path):
    """Section 5: under /api/ problem+json, elsewhere a page."""
    answer = service.get(path)
    assert answer.status_code == 404
    assert answer.headers["Content-Type"].startswith("text/html")
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", [HOOK, TOKENS])
def test_a_chunked_body_says_no_length(service, path):
    """411 length_required: a chunked body that the server cannot read. Before any credential."""
    answer = service.http.post(path, content=iter([b"{}"]))
    assert_refused(answer, 411, "length_required")


def test_a_body_has_at_most_64_kib(service):
    """413 body_too_large; section 7."""
    whole = of_length(service.fanout(), LIMIT)
    assert len(whole) == LIMIT
    assert service.push(whole, service.platform).status_code == 200
    for path in (HOOK, deploy_path(service.desk)):
        refused = service.send_headers("POST", path, LIMIT + 1, bearer(service.platform))
        assert_refused(refused, 413, "body_too_large")


def test_the_size_is_checked_before_any_credential(service):
    """Section 5, order: length and size, then the form of the credential headers."""
    for headers in ({}, {"Authorization": "x"}, {"X-SVC-Timestamp": "x"}):
        refused = service.send_headers("POST", HOOK, LIMIT + 1, headers)
        assert_refused(refused, 413, "body_too_large")


@pytest.mark.parametrize("path", [HOOK, TOKENS, "/accounts/login/"])
@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "br", "gzip, gzip", "utf-8"])
def test_an_encoded_body_is_not_read(service, path, encoding):
    """415, with Accept-Encoding: before any credential, also where the content type is ignored."""
    headers = {"Content-Encoding": encoding}
    answer = service.send("POST", path, gzip.compress(b"{}"), token="x", headers=headers)
    assert (answer.status_code, answer.headers["Accept-Encoding"]) == (415, "identity")
    if path.startswith("/api/"):
        body = assert_refused(answer, 415, "unsupported_media_type")
        assert "Content-Encoding" in body["detail"]


def test_a_body_without_an_encoding_is_read(service):
    """415: identity is none, and where there is no body its encoding says nothing."""
    identity = {"Content-Encoding": "Identity"}
    answer = service.push(service.fanout(), service.platform, headers=identity)
    assert answer.status_code == 200
    gone = {"Content-Encoding": "gzip"}
    assert service.get(ME, service.desk_token, headers=gone).status_code == 200


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Content-Length": str(LIMIT + 1)}, b"HTTP/1.1 413 "),
        ({"Content-Length": str(LIMIT)}, b"HTTP/1.1 401 "),
        ({"Content-Length": str(LIMIT), "X-SVC-Signature": f"v1={'0' * 64}"}, CONTINUE),
    ],
)
def test_a_client_that_waits_for_100_sends_nothing_that_is_refused(service, headers, expected):
    """Section 4: the refusal instead; behind a proxy that takes bodies over, after the body."""
    if "X-SVC-Signature" in headers:
        headers = {**headers, "X-SVC-Timestamp": str(int(time.time()))}
    connection = service.connection()
    try:
        connection.putrequest("POST", HOOK)
        for name, value in {"Expect": "100-continue", **headers}.items():
            connection.putheader(name, value)
        connection.endheaders()
        first = connection.sock.recv(1024)
        if first.startswith(CONTINUE) and expected != CONTINUE:
            assert headers["Content-Length"] == str(LIMIT)  # more is refused by any proxy
            connection.send(b"x" * LIMIT)
            first = connection.sock.recv(1024)
        assert first.startswith(expected)
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/docs", 405),
        ("/healthz", 405),
        ("/control/", 413),
        ("/accounts/login/", 413),
        ("/desk/connect", 413),
        (HOOK, 413),
        (TOKENS, 413),
    ],
)
def test_a_refused_body_is_not_waited_for(service, path, status):
    """Section 5, order: on every path, before any byte of a body and any CSRF check."""
    headers = {"Content-Type": "multipart/form-data; boundary=x", "Cookie": "csrf=" + "x" * 32}
    refused = service.send_headers("POST", path, 300 * 1024 * 1024, headers)
    assert refused.status_code in (status, 413)  # 413: by a proxy in front


# --- The order -----------------------------------------------------------------------------------


def test_the_form_of_the_credentials_comes_before_the_timestamp_and_the_token(service):
    """Order: form of the credential headers, timestamp, Bearer in force."""
    body = written(service.to_desk())
    old = {"X-SVC-Timestamp": "1000000000", "X-SVC-Signature": "v1=" + "0" * 64}
    unknown = credential("svc_plat_")
    for headers, expected in (
        ({**old, "Authorization": "Basic x"}, "token_invalid"),
        ({**old, "Authorization": f"Bearer {unknown}"}, "timestamp_invalid"),
        (
            {"X-SVC-Timestamp": "1000000000", "Authorization": f"Bearer {unknown}"},
            "signature_missing",
        ),
        ({**old, "X-SVC-Signature": "x"}, "signature_invalid"),
    ):
        assert_refused(service.push(body, headers=headers), 401, expected)


def test_the_bearer_comes_before_the_json_and_the_json_before_the_signature(service):
    """Order: Bearer in force; on the hook JSON form, source and botId, signature."""
    unknown = credential("svc_plat_")
    assert_refused(service.push(b"{", unknown), 401, "token_invalid")
    wrong = credential("svc_sign_")
    assert_refused(service.push(b"{", secret=wrong), 400, "malformed")
    answer = service.push(service.fanout(api_key="x"), secret=wrong)
    assert_refused(answer, 401, "signature_invalid")


def test_the_kind_of_token_comes_before_its_scope_and_both_before_the_law(service):
    """Order: kind of token, scope, …, exchange_secret."""
    body = service.fanout(api_key="x")
    assert_refused(service.push(body, service.desk_token), 403, "not_allowed")
    assert_refused(service.push(body, service.reader), 403, "scope_missing")


def test_the_scope_comes_before_the_media_type_and_that_before_the_json(service):
    """Order: scope; rate; media type; JSON form."""
    headers = {"Content-Type": "text/plain"}
    path = deploy_path(service.desk)
    answer = service.send("POST", path, b"{", service.reader, headers=headers)
    assert_refused(answer, 403, "scope_missing")
    answer = service.send("POST", path, b"{", service.platform, headers=headers)
    assert_refused(answer, 415, "unsupported_media_type")


# Each breaks one rule. Of several, the first in this order is reported.
FAULTS = [
    ("exchange_secret", {"api_key": "x"}),
    ("ticker_only", {"ticker": "BTCUSDT", "direction": None}),
    ("mode_refused", {"mode": "live"}),
    ("not_elected", {"elected": False}),
    ("invalid", {"nonce": ""}),
]


@pytest.mark.parametrize("first", range(len(FAULTS)))
def test_of_several_errors_the_first_in_the_order_is_reported(service, first):
    """Order: exchange_secret, ticker_only, mode_refused, not_elected, invalid."""
    body = service.to_desk(userId="usr_" + "0" * 22, pair="NOT/IT")
    for _, fault in reversed(FAULTS[first:]):
        body |= fault
    assert_refused(service.push(body, service.platform), 422, FAULTS[first][0])


def test_a_spent_nonce_is_reported_after_an_unknown_desk_and_before_readiness_and_pair(service):
    """Order: desk found, nonce_used, desk_not_ready, pair, direction."""
    idle = next(desk["userId"] for desk in service.desks() if not desk["connected"])
    body = service.to_desk()
    assert service.push(body, service.platform).status_code == 200
    other = {"pair": "NOT/IT", "direction": "short"}
    unknown = service.push({**body, **other, "userId": "usr_" + "0" * 22}, service.platform)
    assert_refused(unknown, 404, "not_found")
    spent = service.push({**body, **other, "userId": idle}, service.platform)
    assert_refused(spent, 409, "nonce_used")
    fresh = service.push(service.to_desk(userId=idle, **other), service.platform)
    assert_refused(fresh, 422, "desk_not_ready")
    ready = service.push(service.to_desk(**other), service.platform)
    assert_refused(ready, 422, "pair_mismatch")


# --- The codes of fields --------------------------------------------------------------------------

# Section 5, the table, but ``taken``, which only pages say: what is sent, and the field.
IN_QUERIES = {
    "unknown": ("foo=1", "foo"),
    "repeated": ("limit=1&limit=2", "limit"),
    "type": ("limit=ten", "limit"),
    "choice": ("kind=signal.filled&kind=signal.invented", "kind"),
    "range": ("limit=1001", "limit"),
    "cursor": ("after=nonsense", "after"),
    "contradiction": ("order=desc&wait=1", "wait"),
}
IN_BODIES: dict[str, tuple[dict[str, object], str]] = {
    "required": ({"trace_id": None}, "trace_id"),
    "form": ({"pair": "btc/usdt"}, "pair"),
    "characters": ({"rationale": "a\u0007b"}, "rationale"),
    "length": ({"decision_ref": "x" * 129}, "decision_ref"),
}


def said(answer):
    """The field and the code of each fault."""
    assert_refused(answer, 422, "invalid")
    errors = answer.json()["errors"]
    assert all(set(error) == {"field", "code", "detail"} and error["detail"] for error in errors)
    return [(error["field"], error["code"]) for error in errors]


@pytest.mark.parametrize("code", IN_QUERIES)
def test_each_fault_of_a_query_has_a_code_of_the_vocabulary(service, code):
    query, field = IN_QUERIES[code]
    assert said(service.get(f"{EVENTS}?{query}", service.platform)) == [(field, code)]


@pytest.mark.parametrize("code", IN_BODIES)
def test_each_fault_of_a_body_has_a_code_of_the_vocabulary(service, code):
    changes, field = IN_BODIES[code]
    assert said(service.push(service.of_nox(**changes), service.platform)) == [(field, code)]


def test_what_the_caller_may_not_use_is_forbidden(service):
    answer = service.get(SIGNALS, service.desk_token, nonce="n", source="floor")
    assert said(answer) == [("source", "forbidden")]


def test_the_document_lists_the_vocabulary(service):
    """The one of the table, and no other word."""
    schemas = service.get("/api/schema").json()["components"]["schemas"]
    listed = schemas["FieldError"]["properties"]["code"]["enum"]
    assert set(listed) == {*IN_QUERIES, *IN_BODIES, "forbidden", "taken"}


# --- What no answer does -------------------------------------------------------------------------


def test_no_answer_echoes_a_credential(service):
    """Section 5: wherever it was put."""
    value = credential("svc_plat_")
    body = written({**service.fanout(), value: value, "note": value})
    for answer in (
        service.get(f"{EVENTS}?{value}=1", service.platform),
        service.get(f"{EVENTS}?after={value}", service.platform),
        service.get(f"{EVENTS}?kind={value}", service.platform),
        service.get(f"{DESKS}/{value}", service.platform),
        service.get(f"/api/v1/{value}"),
        service.get(f"/{value}"),
        service.get(f"/problems/{value}"),
        service.get(ME, value),
        service.get(CATALOG, headers={"X-Request-Id": value + "." * 9}),
        service.push(body, service.platform),
        service.push(body, value),
        service.push(body, headers=signed(value, body=body)),
        service.push(service.tradingview(botId=value), secret=service.floor),
        service.http.request(value, ME),
    ):
        assert value not in answer.text, answer.request.url
        assert value[9:] not in answer.text


TARGETS = [
    b"/%00",
    b"/api/v1/%00",
    b"/api/v1/%ff%fe%fd",
    b"/api/v1/%C0%AF",
    b"/api/v1/..%2f..%2fetc/passwd",
    b"/static/..%2f..%2fmanage.py",
    b"/static/%00",
    b"/api/v1/me?%00=%00",
    b"/api/v1/desks?limit=%ff",
    b"/api/v1/events?after=%00",
    b"/api/v1/desks?" + b"&".join(b"a%d=1" % n for n in range(400)),
    b"//api/v1",
    b"/api//v1",
    b"/api/v1/me/../me",
    b"/?" + b"%00" * 100,
    b"/accounts/login/?next=%00",
    b"/accounts/login/?next=//evil.example",
    b"/problems/%0d%0aX:%20y",
    b"/control/%00",
    b"/bots/%00",
    b"*",
    b"http://elsewhere.example/api/v1",
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "BREW"])
def test_any_target_gets_an_answer_and_none_is_a_fault_of_the_services(service, target, method):
    """Section 5: any bytes on any path; no input causes a 500, a stack trace or a hang."""
    status, text = raw(service, method, target)
    assert status < 500, text
    assert "Traceback" not in text
    assert "root:" not in text


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": b"\xff\xfe"},
        {"Cookie": b"session=\x00\xff; csrf=%00"},
        {"Cookie": "session=" + "x" * 4000},
        {"X-SVC-Timestamp": b"\xd9\xa0" * 10, "X-SVC-Signature": "v1=" + "0" * 64},
        {"X-Request-Id": b"\x80"},
        {"Content-Type": b"\xff/\xff; charset=\xff"},
        {"Accept": "application/xml;q=x"},
        {"If-None-Match": b"\xff"},
        {"If-Match": '"x"'},
        {"If-Modified-Since": "never"},
        {"Range": "bytes=x"},
        {"Accept-Language": "x" * 4000},
        {"X-Forwarded-For": "x,y,z"},
        {"X-Forwarded-Host": "elsewhere.example"},
        {"X-HTTP-Method-Override": "DELETE"},
        {"Referer": b"\xff"},
        {"Origin": "null"},
    ],
)
@pytest.mark.parametrize("path", [CATALOG, ME, EVENTS, HOOK, TOKENS, "/", "/accounts/login/"])
def test_any_header_gets_an_answer(service, path, headers):
    for method in ("GET", "POST"):
        status, text = raw(service, method, path.encode(), b"{}", **headers)
        assert status < 500, text
        assert "Traceback" not in text

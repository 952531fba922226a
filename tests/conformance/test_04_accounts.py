"""Section 4: accounts. What can be seen of it from outside, without anybody's mailbox."""

import secrets

import pytest

from tests.conformance.browser import CSRF_FIELD, SIGN_IN, Browser
from tests.conformance.client import DESKS, ME, assert_refused, code

SIGN_UP, RESET = "/accounts/signup/", "/accounts/password/reset/"
LINK, CHOOSE = "/accounts/signup/link/", "/accounts/signup/password/"


def answer_to(service, path, address):
    """What a new visitor sees who enters an address, without what is new in each answer."""
    with Browser(service) as visitor:
        answer = visitor.post(path, {"email": address})
        shown = visitor.get(answer.headers["Location"])
        # The cookies hold the address itself and a new CSRF token; their names are compared below.
        names = set(answer.headers) - {"x-request-id", "date", "set-cookie"}
        return (
            answer.status_code,
            {name: answer.headers[name] for name in names},
            answer.content,
            sorted(visitor.http.cookies),
            CSRF_FIELD.sub("", shown.text).replace(address, "the address"),
        )


@pytest.mark.parametrize("path", [SIGN_UP, RESET])
def test_nobody_learns_who_has_an_account(service, path):
    known = service.seed["user"]["email"]
    unknown = f"{secrets.token_hex(8)}@example.com"
    assert answer_to(service, path, known) == answer_to(service, path, unknown)


def test_sign_up_asks_for_the_address_only(service):
    page = service.get(SIGN_UP).text.partition("<main")[2]
    assert 'name="email"' in page
    assert "password1" not in page


def test_a_domain_that_idna_refuses_is_no_address(service):
    with Browser(service) as visitor:
        answer = visitor.post(SIGN_UP, {"email": "somebody@☃.example"})
    assert answer.status_code == 422
    assert "is not a domain name that can receive mail" in answer.text


def test_a_link_of_nobodys_making_opens_nothing(service):
    with Browser(service) as visitor:
        for path in (f"{LINK}made-up:by:somebody/", CHOOSE):
            answer = visitor.get(path)
            assert (answer.status_code, answer.headers["Cache-Control"]) == (410, "no-store")


def test_the_address_is_one_however_its_domain_is_written(service):
    """The second spelling is counted with the first: three mails in ten minutes."""
    name = secrets.token_hex(8)
    spellings = ["exämple.com", "xn--exmple-cua.com", "EXÄMPLE.COM", "exämple.com"]
    answers = []
    for each in spellings:  # each in a browser of its own: one browser sends once a minute
        with Browser(service) as visitor:
            answers.append(visitor.post(SIGN_UP, {"email": f"{name}@{each}"}))
    assert [answer.status_code for answer in answers] == [302, 302, 302, 429]


def test_a_customer_is_asked_what_else_ends(user):
    user.mint_desk_token()
    page = user.get("/desk/end")
    assert page.status_code == 200
    assert "Revoke the desk token" in page.text


CLOSE = "/accounts/close/"
ENDED = {
    "election.withdrawn",
    "secret.ended",
    "automation.removed",
    "desk.disconnected",
    "token.revoked",
    "desk.closed",
}


def test_a_closed_account_ends_with_everything_but_the_log(service_to_leave):
    """Section 1: when a user closes the account. Section 4, desks: removed."""
    service, user = service_to_leave, service_to_leave.seed["user"]
    fan_out = service.push(service.fanout(), service.platform).json()
    since = service.get(DESKS, service.platform).json()["asOf"]
    with Browser(service) as owner:
        owner.sign_in(user)
        token = owner.mint_desk_token()
        before = service.tail()
        asked = owner.get(CLOSE)
        assert service.own_desk in asked.text
        assert owner.post(CLOSE, {}).status_code == 422, "it asks first"
        assert service.tail() == before
        assert owner.post(CLOSE, {"understood": "on"}).status_code == 302
        assert SIGN_IN in owner.get("/desk").headers["Location"]
    events = service.events(after=before)
    assert {event["kind"] for event in events} == ENDED
    assert events[-1]["kind"] == "desk.closed"
    assert {event["userId"] for event in events} == {service.own_desk}
    withdrawn = [event for event in events if event["kind"] == "election.withdrawn"]
    assert {event["data"]["reason"] for event in withdrawn} == {"closed"}
    assert user["email"] not in str(events)
    assert_refused(service.get(ME, token), 401, "token_invalid")
    signed = service.push(service.tradingview(), secret=service.bot["secret"])
    assert_refused(signed, 401, "signature_invalid")
    assert_refused(service.get(f"{DESKS}/{service.own_desk}", service.platform), 404, "not_found")
    refused = service.deploy(service.own_desk, service.one_desk())
    assert (code(refused), refused.json()["reason"]) == ("desk_not_ready", "deactivated")
    assert service.own_desk not in [desk["userId"] for desk in service.desks()]
    filled = service.desks(signal=fan_out["signal"]["id"])
    assert service.own_desk in [desk["userId"] for desk in filled]
    changed = service.get(DESKS, service.platform, changedSince=since).json()
    assert changed["desks"] == [{"userId": service.own_desk, "removed": True}]
    with Browser(service) as visitor:
        visitor.post(SIGN_IN, {"login": user["email"], "password": user["password"]})
        assert SIGN_IN in visitor.get("/desk").headers["Location"]
        assert visitor.post(SIGN_UP, {"email": user["email"]}).status_code == 302

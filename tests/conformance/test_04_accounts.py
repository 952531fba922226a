"""Section 4: accounts. What can be seen of it from outside, without anybody's mailbox."""

import secrets

import pytest

from tests.conformance.client import CSRF_FIELD, Browser

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

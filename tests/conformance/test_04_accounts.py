"""Section 4: accounts. What can be seen of it from outside, without anybody's mailbox."""

import json
import secrets
from io import BytesIO
from zipfile import ZipFile

import pytest

from tests.conformance.browser import CSRF_FIELD, Browser
from tests.conformance.credentials import credentials_in

pytestmark = pytest.mark.once

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


@pytest.mark.parametrize("path", [SIGN_UP, RESET])
def test_the_page_that_says_to_look_for_a_mail_sends_again_once_a_minute(service, path):
    """Section 4, check your email: it names the address; from one browser once a minute."""
    address = f"{secrets.token_hex(8)}@example.com"
    with Browser(service) as visitor:
        sent = visitor.post(path, {"email": address})
        shown = visitor.get(sent.headers["Location"]).text
        again = visitor.post(path, {"email": address}, seen_at=sent.headers["Location"])
        refused = visitor.get(again.headers["Location"]) if again.is_redirect else again
    assert address in shown
    assert f'action="{path}"' in shown
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["Retry-After"]) <= 60


def test_sign_up_asks_for_the_address_only(service):
    page = service.get(SIGN_UP).text.partition("<main")[2]
    assert 'name="email"' in page
    assert "password1" not in page


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


@pytest.fixture
def owner(service):
    """The seeded user, who has just signed in, as some pages ask for."""
    with Browser(service) as browser:
        browser.sign_in(service.seed["user"])
        yield browser


def test_a_customer_takes_the_own_data_along_without_any_secret(service, owner):
    """Section 4, own data: one ZIP file of JSON and CSV, with the desk's view of the log."""
    token = owner.mint_desk_token()
    answer = owner.post("/accounts/data/", {})
    assert (answer.headers["Content-Type"], answer.status_code) == ("application/zip", 200)
    with ZipFile(BytesIO(answer.content)) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    assert {name.rpartition(".")[2] for name in files} == {"json", "csv"}
    assert json.loads(files["account.json"])[0]["email"] == service.seed["user"]["email"]
    assert json.loads(files["events.json"]) == service.events(token, limit=1000)
    texts = " ".join(files.values())
    assert credentials_in(texts) == set()
    assert service.seed["user"]["password"] not in texts


@pytest.mark.parametrize(
    "url",
    [
        "http://discord.com/api/webhooks/1/x",
        "https://discord.com:8443/api/webhooks/1/x",
        "https://user@discord.com/api/webhooks/1/x",
        "https://discord.com/api/webhooks/1/x?wait=true",
        "https://discord.com.example/api/webhooks/1/x",
        "https://discord.com/somewhere/else",
        "https://127.0.0.1/services/T0/B0/x",
    ],
)
def test_another_address_is_no_chat(owner, url):
    """Section 4, chats: only https at the hosts and paths of the services that there are."""
    answer = owner.post("/notices/chats/new", {"url": url})
    assert answer.status_code == 422
    assert url not in owner.get("/notices").text

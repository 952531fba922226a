"""Accounts with several workers."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http import HTTPStatus

import httpx2
import pytest

from tests import shared_store, staff
from tests.client import EVENTS, bearer
from tests.config.accounts.test_sign_in import LOGIN, TOO_MANY
from tests.conformance.browser import Browser
from tests.conformance.client import Service
from tests.server import Server, manage, serving, serving_beside
from tokens.forms import FIELD

pytestmark = [pytest.mark.processes]

MINT = "/desk/token"
KEY = re.compile(rf'name="{FIELD}" value="([^"]+)"')
# Where one-time keys are kept: in the cache of the run, which is the database without Redis.
CACHES = [{}, *([{"CACHE_URL": "dbcache://cache"}] if shared_store.URL else [])]


@pytest.fixture(scope="module")
def server():
    """Two workers that share LIMITS_URL and CACHE_URL, or the database."""
    with serving(REQUIRE_STAFF_MFA="on") as server:
        yield server


@pytest.fixture(scope="module", autouse=True)
def session(server) -> httpx2.Cookies:
    """The user's, signed in before other tests close the sign-in by failing at it."""
    with browsers(server, 1) as [browser]:
        browser.sign_in(server.seed["user"])
        return httpx2.Cookies(browser.http.cookies)


def send(browser: Browser, path: str, **fields: str) -> httpx2.Response:
    """Sends a form without looking at its page."""
    return browser.http.post(path, data={**fields, "csrfmiddlewaretoken": browser.csrf})


def insist(browser: Browser, path: str, **fields: str) -> httpx2.Response:
    """Sends again while another of this address or account is under way."""
    while (answer := send(browser, path, **fields)).status_code == HTTPStatus.TOO_MANY_REQUESTS:
        pass
    return answer


@contextmanager
def browsers(server: Server, count: int) -> Iterator[list[Browser]]:
    """So many browsers that look at the page of the sign-in."""
    with ExitStack() as stack:
        service = stack.enter_context(Service(server.base_url, server.seed))
        found = [stack.enter_context(Browser(service)) for _ in range(count)]
        for browser in found:
            browser.get(LOGIN)
        yield found


def together(browsers: list[Browser], path: str, **fields: str) -> list[httpx2.Response]:
    """Returns the responses to the same form, sent by all of them at once."""
    with ThreadPoolExecutor(len(browsers)) as pool:
        return list(pool.map(lambda browser: send(browser, path, **fields), browsers))


def test_of_browsers_that_send_one_code_to_several_workers_at_once_one_signs_in(server):
    admin = server.seed["admin"]
    entered = 0
    for _ in range(3):  # where the code ended while they were at it, with another one
        with browsers(server, 4) as four:
            for browser in four:
                send(browser, LOGIN, login=admin["email"], password=admin["password"])
            code = staff.code_of(admin["totpSecret"])
            together(four, "/accounts/2fa/authenticate/", code=code)
            entered = sum(browser.get("/control/").is_success for browser in four)
        if entered:
            break
    assert entered == 1


def test_wrong_passwords_are_counted_together_by_several_workers(server):
    with browsers(server, 8) as eight:
        login = {"login": server.seed["user"]["email"], "password": "wrong"}
        with ThreadPoolExecutor(len(eight)) as pool:
            every = list(pool.map(lambda browser: insist(browser, LOGIN, **login), eight))
    answers = [answer.text for answer in every]
    wrong, too_many = (
        sum(said in text for text in answers) for said in ("or password is wrong", TOO_MANY)
    )
    assert (wrong <= 5, wrong + too_many) == (True, 8)


def minted(server: Server) -> int:
    """The number of tokens that were ever minted."""
    engine = bearer(server.seed["platformToken"])
    with httpx2.Client(base_url=server.base_url, headers=engine, trust_env=False) as http:
        return len(http.get(f"{EVENTS}?kind=token.minted&limit=1000").json()["events"])


@pytest.mark.parametrize("settings", CACHES, ids=lambda given: given.get("CACHE_URL", "configured"))
def test_of_one_form_that_is_sent_to_several_workers_at_once_one_makes_a_token(
    server, session, settings
):
    with ExitStack() as stack:
        served = server
        if settings:
            served = stack.enter_context(serving_beside(server, **settings))
            manage(served, "createcachetable")
        [browser] = stack.enter_context(browsers(served, 1))
        browser.http.cookies.update(session)
        answer = browser.get(MINT)
        assert answer.status_code == HTTPStatus.OK, answer.headers
        form = {FIELD: KEY.search(answer.text)[1]}
        before = minted(server)
        answers = [answer.status_code for answer in together([browser] * 8, MINT, **form)]
    assert sorted(answers) == [HTTPStatus.OK] + [HTTPStatus.CONFLICT] * 7
    assert minted(server) == before + 1

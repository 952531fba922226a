"""Accounts with several workers."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http import HTTPStatus

import httpx
import pytest

from tests import staff
from tests.config.test_accounts import LOGIN, TOO_MANY, WRONG
from tests.server import Server, serving

pytestmark = [pytest.mark.processes, pytest.mark.alone]


@pytest.fixture(scope="module")
def server():
    """Four workers that share LIMITS_URL and CACHE_URL, or the database."""
    with serving(ready=1, idle=0, WEB_CONCURRENCY="4", REQUIRE_STAFF_MFA="on") as server:
        yield server


class Browser:
    """A browser's part: a session, and the CSRF token of its form."""

    def __init__(self, server: Server) -> None:
        self._http = httpx.Client(base_url=server.base_url, trust_env=False, timeout=30)
        self._http.get(LOGIN)

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def send(self, path: str, **fields: str) -> httpx.Response:
        token = self._http.cookies["csrf"]
        return self._http.post(path, data={**fields, "csrfmiddlewaretoken": token})

    def enters(self, path: str) -> bool:
        return self._http.get(path).status_code == HTTPStatus.OK


@contextmanager
def browsers(server: Server, count: int) -> Iterator[list[Browser]]:
    with ExitStack() as stack:
        yield [stack.enter_context(Browser(server)) for _ in range(count)]


def together(browsers: list[Browser], path: str, **fields: str) -> list[httpx.Response]:
    """Returns the responses to the same form, sent by all of them at once."""
    with ThreadPoolExecutor(len(browsers)) as pool:
        return list(pool.map(lambda browser: browser.send(path, **fields), browsers))


def test_of_browsers_that_send_one_code_to_four_workers_at_once_one_signs_in(server):
    admin = server.seed["admin"]
    entered = 0
    for _ in range(3):  # where the code ended while they were at it, with another one
        with browsers(server, 4) as four:
            for browser in four:
                browser.send(LOGIN, login=admin["email"], password=admin["password"])
            code = staff.code_of(admin["totpSecret"])
            together(four, "/accounts/2fa/authenticate/", code=code)
            entered = sum(browser.enters("/control/") for browser in four)
        if entered:
            break
    assert entered == 1


def test_wrong_passwords_are_counted_together_by_four_workers(server):
    with browsers(server, 8) as eight:
        login = {"login": server.seed["user"]["email"], "password": "wrong"}
        answers = [answer.text for answer in together(eight, LOGIN, **login)]
    wrong, too_many = (sum(said in text for text in answers) for said in (WRONG, TOO_MANY))
    assert (wrong <= 5, wrong + too_many) == (True, 8)

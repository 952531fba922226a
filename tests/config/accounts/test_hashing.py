"""How passwords are hashed, how many at once, and who waits for whom."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from typing import Any

import argon2
import pytest
from django.contrib.auth import hashers
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from config import settings as served
from config.accounts import hashing
from config.accounts.hashing import ADMITTED, Admissions, admissions
from desks.models import User
from events.http.refusals import RateLimited, Unavailable
from tests import pages, staff
from tests.client import Response
from tests.factories import PASSWORD
from tests.streams import wait_until

pytestmark = pytest.mark.once

KNOWN, FORMER, UNKNOWN = "known@example.com", "former@example.com", "nobody@example.com"
LOGIN, REAUTHENTICATE = "/accounts/login/", "/accounts/reauthenticate/"
NEW = "another horse battery"
HERE = "127.0.0.1"


def user(address: str, hasher: Any = "default") -> User:
    found = staff.verified(User.objects.create_user(address, PASSWORD))
    User.objects.filter(pk=found.pk).update(password=hashers.make_password(PASSWORD, hasher=hasher))
    found.refresh_from_db()
    return found


def sign_in(address: str, password: str = PASSWORD, browser: Client | None = None) -> Response:
    return (browser or Client()).post(LOGIN, {"login": address, "password": password})


# --- How -----------------------------------------------------------------------------------------


@pytest.fixture
def argon(settings) -> None:
    """The hasher of the service instead of the tests' fast one."""
    settings.PASSWORD_HASHERS = served.PASSWORD_HASHERS


@pytest.fixture
def work(argon, monkeypatch) -> list[str]:
    """Records the parameters of every hash that the C library computes."""
    done: list[str] = []
    hash_secret, verify = argon2.low_level.hash_secret, argon2.PasswordHasher.verify

    def hashed(*args: Any, **options: Any) -> bytes:
        encoded = hash_secret(*args, **options)
        done.append(encoded.decode().split("$")[3])
        return encoded

    def verified(self: argon2.PasswordHasher, encoded: str, password: str) -> bool:
        done.append(encoded.split("$")[3])
        return verify(self, encoded, password)

    monkeypatch.setattr(argon2.low_level, "hash_secret", hashed)
    monkeypatch.setattr(argon2.PasswordHasher, "verify", verified)
    return done


def former_hash() -> hashers.Argon2PasswordHasher:
    """Django's hasher as the releases before this module used it."""
    former = hashers.Argon2PasswordHasher()
    former.memory_cost, former.time_cost, former.parallelism = 102_400, 2, 8
    return former


TODAY, THEN = "m=47104,t=1,p=1", "m=102400,t=2,p=8"


def test_passwords_are_hashed_with_argon2id_and_parameters_of_owasp(argon):
    assert hashers.make_password(PASSWORD).startswith(f"argon2$argon2id$v=19${TODAY}$")


@pytest.mark.django_db
def test_a_former_hash_counts_and_ends_with_the_sign_in(argon):
    one = user(FORMER, former_hash())
    assert THEN in one.password
    browser = Client()
    assert sign_in(FORMER, browser=browser)["Location"] == "/desk"
    one.refresh_from_db()
    assert TODAY in one.password
    assert browser.get("/accounts/sessions/").status_code == HTTPStatus.OK
    assert sign_in(FORMER).status_code == HTTPStatus.FOUND


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("path", "fields"),
    [
        (REAUTHENTICATE, {"password": PASSWORD}),
        ("/accounts/password/change/", {"oldpassword": PASSWORD, "password1": NEW}),  # no second
    ],
)
def test_who_proves_a_password_with_a_former_hash_stays_signed_in(argon, path, fields):
    one = user(FORMER, former_hash())
    browser = staff.a_client(one, "password")
    browser.post(path, fields)
    one.refresh_from_db()
    assert TODAY in one.password
    assert browser.get("/accounts/sessions/").status_code == HTTPStatus.OK


@pytest.mark.django_db
def test_a_wrong_password_costs_the_same_work_whatever_hash_there_is(work):
    user(KNOWN)
    user(FORMER, former_hash())
    costs = []
    for address in (KNOWN, FORMER, UNKNOWN):
        work.clear()
        assert pages.errors(sign_in(address, "wrong horse battery"))
        costs.append(sorted(work))
    assert costs == [sorted([TODAY, THEN])] * 3


@pytest.mark.django_db
def test_without_former_hashes_nobody_does_their_work(work):
    user(KNOWN)
    for address in (KNOWN, UNKNOWN):
        work.clear()
        sign_in(address, "wrong horse battery")
        assert work == [TODAY]


@pytest.mark.django_db
def test_former_hashes_are_not_searched_for_at_each_wrong_password(work):
    sign_in(UNKNOWN, "wrong horse battery")
    with CaptureQueriesContext(connection) as queries:
        sign_in(UNKNOWN, "wrong horse battery")
    assert not [query for query in queries if hashing.FormerPasswordHasher.PREFIX in query["sql"]]


# --- How many ------------------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch) -> None:
    monkeypatch.setattr(hashing, "TIMEOUT", 0.05)


class Library:
    """The C library, which begins to hash and does not end until it may."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Event()

    def hold(self, *_: Any, **__: Any) -> bytes:
        self.begun.release()
        self.may_end.wait()
        return b"$argon2id$"

    def verify(self, *_: Any, **__: Any) -> bool:
        self.hold()
        return True


@pytest.fixture
def library(monkeypatch) -> Iterator[Library]:
    library = Library()
    monkeypatch.setattr(argon2.low_level, "hash_secret", library.hold)
    monkeypatch.setattr(argon2.PasswordHasher, "verify", library.verify)
    yield library
    library.may_end.set()


@pytest.mark.parametrize("kind", ["new", "today's", "former"])
def test_a_process_hashes_two_at_once_and_nobody_waits_for_ever(argon, impatient, library, kind):
    own = f"argon2$argon2id$v=19${THEN if kind == 'former' else TODAY}$c2FsdHNhbHQ$aGFzaGhhc2g"
    hashes: dict[str, Callable[[], object]] = {
        "new": lambda: hashers.make_password(PASSWORD),
        "today's": lambda: hashers.check_password(PASSWORD, own),
        "former": lambda: hashers.check_password(PASSWORD, own),
    }
    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(hashes[kind]) for _ in range(2)]
        for _ in running:
            library.begun.acquire()
        try:
            with pytest.raises(Unavailable):
                pool.submit(hashes[kind]).result(timeout=60)
        finally:
            library.may_end.set()


# --- Who waits for whom --------------------------------------------------------------------------


FORMS = {
    "sign-in": (LOGIN, {"login": UNKNOWN, "password": PASSWORD}),
    "sign-up": ("/accounts/signup/password/", {"password1": NEW}),
    "reset": ("/accounts/password/reset/key/1-set-password/", {"password1": NEW}),
    "change": ("/accounts/password/change/", {"oldpassword": PASSWORD, "password1": NEW}),
    "set": ("/accounts/password/set/", {"password1": NEW}),
    "reauthentication": (REAUTHENTICATE, {"password": PASSWORD}),
}


@pytest.mark.django_db
@pytest.mark.parametrize("form", FORMS)
def test_of_one_address_one_request_is_admitted(form):
    path, fields = FORMS[form]
    browser = Client() if form in ("sign-in", "sign-up", "reset") else _signed_in()
    with admissions.admit(HERE, "somebody"):
        refused = browser.post(path, fields)
        elsewhere = browser.post(path, fields, REMOTE_ADDR="192.0.2.7")
        assert browser.get(path).status_code != HTTPStatus.TOO_MANY_REQUESTS
    assert (refused.status_code, refused["Retry-After"]) == (HTTPStatus.TOO_MANY_REQUESTS, "1")
    assert elsewhere.status_code != HTTPStatus.TOO_MANY_REQUESTS
    assert browser.post(path, fields).status_code != HTTPStatus.TOO_MANY_REQUESTS


def _signed_in() -> Client:
    return staff.a_client(user(KNOWN), "password")


def test_of_one_address_one_request_is_admitted_in_all_processes_together():
    of_another_process = Admissions()
    with admissions.admit(HERE, "x"):
        with pytest.raises(RateLimited), of_another_process.admit(HERE, "y"):
            pass
        with of_another_process.admit("192.0.2.7", "y"):
            pass


@pytest.mark.django_db
def test_addresses_of_one_network_are_one_address(settings):
    with admissions.admit("2001:db8::/64", "somebody"):
        direct = Client(REMOTE_ADDR="2001:db8::7").post(*FORMS["sign-in"])
        settings.TRUSTED_PROXIES = 1
        proxied = Client(HTTP_X_FORWARDED_FOR="2001:db8::8").post(*FORMS["sign-in"])
    assert direct.status_code == proxied.status_code == HTTPStatus.TOO_MANY_REQUESTS


@contextmanager
def one_running_and_one_waiting(account: str) -> Iterator[Future[None]]:
    """Two requests of an account. The second one runs when the block ends."""

    def run() -> None:
        with admissions.admit("192.0.2.2", account):
            pass

    with ThreadPoolExecutor(1) as pool:
        with admissions.admit("192.0.2.1", account):
            waiting = pool.submit(run)
            wait_until(lambda: admissions._accounts.total() == 2, "Nobody waits.")
            yield waiting
        waiting.result()


@pytest.mark.django_db
@pytest.mark.parametrize("who", ["has an account", "has none", "is signed in"])
def test_of_one_account_one_runs_and_one_waits(who):
    browser = staff.a_client(member := user(KNOWN), "password")
    account, form = {
        "has an account": (f"login {KNOWN}", (LOGIN, {"login": KNOWN.upper(), "password": "x"})),
        "has none": (f"login {UNKNOWN}", (LOGIN, {"login": UNKNOWN.upper(), "password": "x"})),
        "is signed in": (f"user {member.pk}", FORMS["reauthentication"]),
    }[who]
    sender = browser if who == "is signed in" else Client()
    with one_running_and_one_waiting(account) as waiting:
        refused = sender.post(*form)
        assert not waiting.done()
    assert (refused.status_code, refused["Retry-After"]) == (HTTPStatus.TOO_MANY_REQUESTS, "1")


def test_who_waits_too_long_for_an_account_is_told_and_leaves_nothing(impatient):
    ours = Admissions()
    with ours.admit("192.0.2.1", "x"):
        with pytest.raises(Unavailable), ours.admit("192.0.2.2", "x"):
            pass
        with pytest.raises(Unavailable), ours.admit("192.0.2.2", "x"):
            pass
    assert (ours._accounts, ours._running) == (Counter(), {})


@pytest.mark.django_db
def test_no_stranger_holds_up_who_is_signed_in():
    browser = _signed_in()
    with one_running_and_one_waiting(f"login {KNOWN}"):
        answer = browser.post(REAUTHENTICATE, {"password": PASSWORD})
    assert answer.status_code == HTTPStatus.FOUND


@pytest.mark.django_db
def test_half_of_the_threads_are_admitted_and_an_error_leaves_its_place():
    with ExitStack() as others:
        for number in range(ADMITTED):
            others.enter_context(admissions.admit(f"192.0.2.{number + 1}", str(number)))
        refused = sign_in(UNKNOWN)
    assert (refused.status_code, refused["Retry-After"]) == (HTTPStatus.SERVICE_UNAVAILABLE, "1")
    with pytest.raises(ZeroDivisionError), admissions.admit(HERE, "x"):
        raise ZeroDivisionError
    assert sign_in(UNKNOWN).status_code == HTTPStatus.OK

"""Passwords: how they are hashed, and how many are hashed at once.

A hash takes 46 MiB of memory and some 80 ms of a core. So a process computes at most
``MAX_CONCURRENT_HASHES`` of them at a time, wherever they are asked for. ``limit_hashing`` bounds
the requests that lead to one, so that no stranger takes the others' turns:

* Of one client address one request is admitted, in whichever process. Another gets 429 at once.
* Of one account one request runs, and one more waits for it. Others get 429. Who signs in from an
  address of their own so waits at most for one request of a stranger.
* In all, half of the process's threads are admitted. Others get 503, as does who waits too long.
"""

import functools
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, hashers
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponseBase

from desks.models import User
from desks.models.user import normalize_address
from events.http import rate_limits
from events.http.refusals import RateLimited, Unavailable
from events.http.requests import rate_limit_address
from events.http.web_pages import View
from events.unavailable_reasons import Wait

MAX_CONCURRENT_HASHES = 2
ADMITTED = max(1, settings.THREADS // 2)
OF_AN_ACCOUNT = 2  # one that runs and one that waits
LOOKED_FOR_EVERY = 3600  # seconds between two searches for hashes with former parameters
ADMISSION_TIME = 30  # seconds, more than a request may take
TIMEOUT = 2.0  # seconds that a request waits for its account, and again for a place to hash

_places = threading.BoundedSemaphore(MAX_CONCURRENT_HASHES)


class PasswordHasher(hashers.Argon2PasswordHasher):
    """Argon2id with parameters of OWASP, at most ``MAX_CONCURRENT_HASHES`` at a time.

    Others of this process wait, and raise ``Unavailable`` if no place is free in time. Of OWASP's
    equal choices this is the one with the most memory, because the C library returns blocks of more
    than 32 MiB to the system at once. With 19 MiB each, 28 threads kept 300 MB for good, although
    two hashed at a time.
    """

    memory_cost, time_cost, parallelism = 46 * 1024, 1, 1

    def encode(self, password: str, salt: str) -> str:
        with _turn(_places):
            return str(super().encode(password, salt))

    def verify(self, password: str, encoded: str) -> bool:
        with _turn(_places):
            return bool(super().verify(password, encoded))

    def harden_runtime(self, password: str, encoded: str) -> None:
        """Called after a wrong password for a hash with other parameters: also does today's work.

        The other half is ``do_the_work_of_former_hashes``.
        """
        self.encode(password, self.salt())


class FormerPasswordHasher(PasswordHasher):
    """The parameters of hashes from before ``PasswordHasher``. They end with a sign-in."""

    memory_cost, time_cost, parallelism = 100 * 1024, 2, 8

    PREFIX = f"argon2$argon2id$v=19$m={memory_cost},t={time_cost},p={parallelism}$"


def do_the_work_of_former_hashes(address: str, password: str) -> None:
    """After a wrong password: does the work that an account with a former hash would have cost.

    Without this, the time of the answer would tell which addresses have an account that old. Does
    nothing once no account has such a hash. Looking for one reads all users, so the answer is kept.
    """
    former = User.objects.filter(password__startswith=FormerPasswordHasher.PREFIX)
    some_are_left = cache.get_or_set("former-password-hashes", former.exists, LOOKED_FOR_EVERY)
    if some_are_left and not former.filter(email=address).exists():
        hasher = FormerPasswordHasher()
        hasher.encode(password, hasher.salt())


def keep_session(request: HttpRequest, user: AbstractBaseUser) -> None:
    """After a right password of who is signed in: keeps the session if it was hashed anew."""
    request.session[HASH_SESSION_KEY] = user.get_session_auth_hash()


@contextmanager
def _turn(places: threading.BoundedSemaphore) -> Iterator[None]:
    """Takes one of the places until the block ends. Raises ``Unavailable`` if none gets free."""
    if not places.acquire(timeout=TIMEOUT):
        raise Unavailable(Wait.PASSWORDS)
    try:
        yield
    finally:
        places.release()


class Admissions:
    """The requests of a process that may hash a password, by account."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._accounts: Counter[str] = Counter()
        self._running: dict[str, threading.BoundedSemaphore] = {}  # one place for each account

    @contextmanager
    def admit(self, address: str, account: str) -> Iterator[None]:
        """Admits a request until the block ends. Waits while another of the account runs.

        Raises ``RateLimited`` or ``Unavailable``.
        """
        with (
            rate_limits.one_at_a_time("passwords", address, ADMISSION_TIME),
            self._admitted(account) as place,
            _turn(place),
        ):
            yield

    @contextmanager
    def _admitted(self, account: str) -> Iterator[threading.BoundedSemaphore]:
        with self._lock:
            if self._accounts[account] >= OF_AN_ACCOUNT:
                raise RateLimited(retry_after=1)
            if self._accounts.total() >= ADMITTED:
                raise Unavailable(Wait.PASSWORDS)
            self._accounts[account] += 1
            place = self._running.setdefault(account, threading.BoundedSemaphore())
        try:
            yield place
        finally:
            with self._lock:
                self._accounts[account] -= 1
                if not self._accounts[account]:
                    del self._accounts[account], self._running[account]


admissions = Admissions()


def limit_hashing(view: View) -> View:
    """Decorates a page whose form leads to a hash of a password."""

    @functools.wraps(view)
    def admitted(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        if request.method != "POST":
            return view(request, *args, **kwargs)
        with admissions.admit(rate_limit_address(request), _account(request)):
            return view(request, *args, **kwargs)

    return admitted


def _account(request: HttpRequest) -> str:
    """The user, or the address that somebody signs in with, or the session that a link began.

    A stranger can name the second only. So nobody holds up who is signed in or has a link.
    """
    if request.user.is_authenticated:
        return f"user {request.user.pk}"
    login = request.POST.get("login")
    if login is None:
        return f"session {request.session.session_key}"
    with suppress(ValidationError):
        return f"login {normalize_address(login.strip())}"
    return f"login {login}"

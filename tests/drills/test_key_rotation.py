"""Rotates all keys on two web servers under load. The servers restart one after the other.

At every moment each server accepts everything that the other one made.
"""

import itertools
import json
import re
import secrets
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import httpx2
import pytest

from tests import staff
from tests.client import DESKS, HOOK, JSON, ME, TOKENS, bearer, signed, written
from tests.drills.clients import push_of
from tests.drills.stage import in_drills
from tests.server import KEYS, ROOT, Server, manage, serving, serving_beside

pytestmark = [
    pytest.mark.processes,
    pytest.mark.once,
    in_drills,
]

LOGIN, RESET = "/accounts/login/", "/accounts/password/reset/"
CODES = "/accounts/2fa/recovery-codes/"
SECRET = re.compile(r"svc_sign_\w+")
LINK = re.compile(r"/accounts/password/reset/key/[^/\s]+/")
# The next use of each token is recorded, as if a minute had passed.
FORGET_USE = "from tokens.models import Token; Token.objects.update(last_used_at=None)"
ROUND = 4  # turns of each client after each restart
PAUSE = 0.05  # seconds between two turns: starting the servers needs the processor as well


class Pair:
    """The two web servers. Sends requests to the other server while one restarts, like a proxy."""

    def __init__(self, base: Server) -> None:
        self.base, self._free = base, threading.Condition()
        self._stacks, self._in_flight = [ExitStack(), ExitStack()], Counter[int]()
        self.urls = {0: base.base_url}  # the second server starts in the first step
        self.visitors = ExitStack()

    def restart(self, which: int, **settings: str) -> None:
        """Stops a server once its requests are answered, and starts it with these settings."""
        with self._free:
            self.urls.pop(which, None)
            self._free.wait_for(lambda: not self._in_flight[which])
        self._stacks[which].close()
        server = self._stacks[which].enter_context(serving_beside(self.base, **settings))
        with self._free:
            self.urls[which] = server.base_url

    @contextmanager
    def one(self, preferred: int) -> Iterator[str]:
        """The address of the preferred server, or of the other one while that restarts."""
        with self._free:
            which = preferred if preferred in self.urls else 1 - preferred
            self._in_flight[which] += 1
            url = self.urls[which]
        try:
            yield url
        finally:
            with self._free:
                self._in_flight[which] -= 1
                self._free.notify_all()

    def close(self) -> None:
        for stack in (self.visitors, *self._stacks):
            stack.close()


class Visitor:
    """A browser or a program that sends requests to both servers."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.http = pair.visitors.enter_context(httpx2.Client(trust_env=False, timeout=60))

    def ask(self, which: int, method: str, path: str, **options: Any) -> httpx2.Response:
        with self.pair.one(which) as url:
            return self.http.request(method, url + path, **options)

    def get(self, which: int, path: str, status: int = HTTPStatus.OK, **options: Any) -> str:
        return expect(self.ask(which, "GET", path, **options), status).text

    def send(self, which: int, path: str, status: int = HTTPStatus.FOUND, **fields: str) -> str:
        """Sends the form of a page. Returns the redirect's target or the page."""
        fields["csrfmiddlewaretoken"] = self.http.cookies["csrf"]
        answer = expect(self.ask(which, "POST", path, data=fields), status)
        return answer.headers.get("Location", answer.text)


def expect(answer: httpx2.Response, status: int = HTTPStatus.OK) -> httpx2.Response:
    problem = f"{answer.request.method} {answer.request.url}: {answer.status_code}"
    assert answer.status_code == status, f"{problem} {answer.headers} {answer.text[:300]}"
    return answer


class Load(threading.Thread):
    """A client that repeats an action, on each server in turn."""

    def __init__(self, act: Callable[[int], None]) -> None:
        super().__init__(daemon=True)
        self.act, self.turns = act, 0
        self.error: Exception | None = None
        self.stopping = threading.Event()

    def run(self) -> None:
        try:
            while not self.stopping.wait(PAUSE):
                self.act(self.turns % 2)
                self.turns += 1
        except Exception as error:
            self.error = error

    def go_on(self) -> None:
        """Waits until the client has done another round. Raises the error that stopped it."""
        until = self.turns + ROUND
        while self.turns < until and self.is_alive():
            self.join(0.01)
        if self.error:
            raise self.error

    def end(self) -> None:
        self.stopping.set()
        self.join()
        if self.error:
            raise self.error


class Story:
    """What is checked on both servers: everything that a key makes or verifies."""

    def __init__(self, pair: Pair, mails: Path) -> None:
        self.pair, self.mails, self.seed = pair, mails, pair.base.seed
        self.bot = dict(self.seed["automation"])
        self.resetting = itertools.cycle(("user", "admin"))
        self.customer, self.member = Visitor(pair), Visitor(pair)
        self.sign_in(self.customer, 0, "user")
        self.sign_in(self.member, 0, "admin")
        self.codes = self._recovery_codes()
        desks = [desk["deskToken"] for desk in self.seed["desks"]]
        self.tokens = [*desks, self.seed["platformToken"], self.seed["readToken"]]
        self.unused = iter([self.mint(0) for _ in range(6)])

    def sign_in(self, visitor: Visitor, which: int, who: str) -> None:
        """Sends the password to one server and, for staff, the second factor to the other."""
        account = self.seed[who]
        visitor.get(which, LOGIN)
        led = visitor.send(which, LOGIN, login=account["email"], password=account["password"])
        if who == "admin":
            assert led.startswith("/accounts/2fa/authenticate/")
            code = next(self.codes) if hasattr(self, "codes") else None
            code = code or staff.code_of(account["totpSecret"])
            visitor.send(1 - which, "/accounts/2fa/authenticate/", code=code)

    def _recovery_codes(self) -> Iterator[str]:
        password = self.seed["admin"]["password"]
        self.member.send(0, "/accounts/reauthenticate/", password=password)
        self.member.send(0, f"{CODES}generate/")
        return iter(self.member.get(0, f"{CODES}download/").split())

    def mint(self, which: int) -> str:
        """A platform token, minted in the control area's session."""
        said = {"scope": "platform", "name": "Engine", "scopes": ["read", "write"]}
        csrf = {"X-CSRFToken": self.member.http.cookies["csrf"]}
        answer = self.member.ask(which, "POST", TOKENS, json=said, headers=csrf)
        self.tokens.append(expect(answer, HTTPStatus.CREATED).json()["token"])
        return self.tokens[-1]

    def check_other_server_accepts(self, here: int) -> None:
        """Checks that the other server accepts what server ``here`` makes or has just verified."""
        there, program = 1 - here, Visitor(self.pair)
        for token in (next(self.unused), self.mint(here)):
            for which in (here, there):
                program.get(which, f"{DESKS}?limit=1", headers=bearer(token))
        page = f"/bots/{self.bot['botId']}/secret"
        shown = self.customer.send(here, page, HTTPStatus.OK, overlap="3600")
        self.bot["secret"] = SECRET.search(shown)[0]
        self.push(there)
        visitor = Visitor(self.pair)
        self.sign_in(visitor, here, "user")
        visitor.get(there, "/desk")
        if here == 0:  # there are ten recovery codes
            self.sign_in(visitor := Visitor(self.pair), here, "admin")
            visitor.get(there, "/control/")
            self._check_reset_link(here)

    def _check_reset_link(self, here: int) -> None:
        """Checks that the other server accepts a reset link that server ``here`` mailed."""
        visitor = Visitor(self.pair)
        visitor.get(here, RESET)
        visitor.send(here, RESET, email=self.seed[next(self.resetting)]["email"])
        newest = max(self.mails.iterdir(), key=lambda file: file.stat().st_mtime_ns)
        link = LINK.search(newest.read_text())[0]
        form = expect(visitor.ask(1 - here, "GET", link), HTTPStatus.FOUND).headers["Location"]
        assert "password1" in visitor.get(here, form)

    # --- The load -----------------------------------------------------------------------------

    def read(self, which: int) -> None:
        desk = self.seed["desks"][0]["deskToken"]
        _of_this_thread(self.pair).get(which, ME, headers=bearer(desk))

    def push(self, which: int) -> None:
        body = written(push_of(self.bot))
        headers = {**signed(self.bot["secret"], body=body), "Content-Type": JSON}
        expect(_of_this_thread(self.pair).ask(which, "POST", HOOK, content=body, headers=headers))

    def look(self, which: int) -> None:
        """Opens the customer's page, with one session cookie for all threads."""
        visitor = _of_this_thread(self.pair)
        visitor.http.cookies = self.customer.http.cookies
        assert "Sign out" in visitor.get(which, "/desk")


_threads = threading.local()


def _of_this_thread(pair: Pair) -> Visitor:
    if getattr(_threads, "pair", None) is not pair:
        _threads.pair, _threads.visitor = pair, Visitor(pair)
    return _threads.visitor


@pytest.fixture
def base(tmp_path) -> Iterator[Server]:
    """The database of both servers, and their settings."""
    settings: Any = {"REQUIRE_STAFF_MFA": "on", "WEB_CONCURRENCY": "1"}
    with serving(ready=2, idle=0, **settings, EMAIL_URL=f"filemail:///{tmp_path}") as server:
        yield server


@pytest.fixture
def pair(base) -> Iterator[Pair]:
    pair = Pair(base)
    try:
        yield pair
    finally:
        pair.close()


def test_keys_rotate_over_two_servers_under_load_and_nothing_is_refused(pair, tmp_path):
    old = {name: pair.base.environment[name] for name in KEYS}
    new = {name: secrets.token_hex(32) for name in KEYS}
    appended = {name: f"{old[name]},{new[name]}" for name in KEYS}
    first = {name: f"{new[name]},{old[name]}" for name in KEYS}
    story = Story(pair, tmp_path)
    for settings in (appended, first):
        step(story, settings)
    move_to_new_keys(story, {**pair.base.environment, **first})
    step(story, new)


def step(story: Story, settings: dict[str, str]) -> None:
    """Restarts one server after the other with these settings, under load."""
    load = [Load(act) for act in (story.read, story.push, story.look, story.look)]
    for client in load:
        client.start()
    for which in (1, 0):
        story.pair.restart(which, **settings)
        for client in load:
            client.go_on()
        if which == 1:  # the servers differ now
            story.check_other_server_accepts(0)
            story.check_other_server_accepts(1)
    for client in load:
        client.end()


def move_to_new_keys(story: Story, environment: dict[str, str]) -> None:
    """Moves everything to the new keys: tokens by their next use, the rest by the command.

    Both servers have the new keys first. There is no load, because the use of a token is not
    recorded while another writer holds the lock.
    """
    server = replace(story.pair.base, environment=environment)
    assert _rotated(server)["tokensOnOldKeys"], "some tokens were used within this minute, or never"
    manage(server, "shell", "--no-imports", "-c", FORGET_USE)
    program = Visitor(story.pair)
    for token in story.tokens:
        program.get(0, f"{TOKENS}?limit=1", headers=bearer(token))
    rotated = _rotated(server)
    assert rotated == {**dict.fromkeys(rotated, 0), "tokensOnOldKeys": [], "linksEnd": ANY}


def _rotated(server: Server) -> dict[str, Any]:
    """The report of ``rotate_keys``. Checks that the exit status agrees with it."""
    done = subprocess.run(
        [sys.executable, "manage.py", "rotate_keys", "--json"],
        cwd=ROOT,
        env=server.environment,
        capture_output=True,
        text=True,
    )
    report: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == bool(report["tokensOnOldKeys"]), done.stderr
    return report

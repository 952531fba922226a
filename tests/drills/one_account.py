"""One account, or one address, tries to hold up all others (part of ``make drills``).

    TEST_DATABASE_URL=… TEST_REDIS_URL=… python -m tests.drills.one_account

The layout is that of production, behind nginx, with the product's limits (``LIMITS``). Others send
signals and open streams, for some seconds without and for some with each attack, in turns. Prints
how much longer the others wait under the attack. The exit status is 1 if a bound is missed:
``MOST_TIMES_AS_LONG``, ``SLOWEST_STREAM``, or any 503.
"""

import asyncio
import json
import multiprocessing
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import django
import httpx2

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from tests.client import EVENTS  # noqa: E402 - it needs the settings
from tests.conformance.browser import CSRF_FIELD, SIGN_IN, Browser  # noqa: E402
from tests.conformance.client import Service  # noqa: E402
from tests.drills.layout import ADDRESS, Layout, client_at, layout  # noqa: E402
from tests.server import manage  # noqa: E402
from tests.signals.webhooks.runner.stage import RunnerProcess  # noqa: E402

# The rounds have some 1,300 signals, so that the p99 rests on more than a few.
ROUNDS, SECONDS = 4, 6.0
OTHERS = "127.2.0.1"  # the address of those who are held up; attacks come from ADDRESS
PAUSE = 0.03  # seconds between two signals of a sender
PACE = 1.0  # seconds between two requests of one of the attacker's connections
# The attackers are processes of their own. They, who measure, and the service share the processors:
# an attacker elsewhere would take nothing of them, so these come last.
NICENESS = 19
LONGEST = 4 * 1024 * 1024  # bytes of an answer
SENDERS = 3
EVENTS_OF_ATTACKER = 45_000
ACCOUNTS = 16  # four for each round
# Limits as they are by default. The servers of the tests have none. That of minting stays off: with
# its 20 an hour the attacks would end before they are measured.
LIMITS: Any = {
    "LIMIT_READS": "600/minute",
    "LIMIT_LARGE_READS": "60/minute",
    "LIMIT_PAGES": "300/minute",
    "LIMIT_CHANGES": "60/minute",
    "LIMIT_FAILURES": "60/minute",
}
# What others may notice: times as long for a signal (p99), seconds for a stream, and no 503.
MOST_TIMES_AS_LONG, SLOWEST_STREAM = 2.0, 1.0
# To a server that proves nothing, in one attack: each change, of 60 a minute, asks for one test.
MOST_POSTS = 60

# Makes accounts of many bots and secrets, a long log of the seeded user, and prints the accounts.
PREPARE = """
import json
from datetime import timedelta
from allauth.account.models import EmailAddress
from desks.ids import new_secret_id
from desks.models import Desk
from events import log
from events.kinds import Kind
from tests import factories
from tokens.models import SigningSecret
user = Desk.objects.get(public_id=DESK)
told = {"code": "pair_mismatch", "source": "tradingview", "botId": None,
        "sent": {"pair": "ETH/USDT", "direction": "long"}, "elected": None}
for _ in range(EVENTS // 500):
    with log.turn(actor=None) as turn:
        for _ in range(500):
            turn.append(Kind.SIGNAL_REFUSED, topic=user.public_id, data=told)
accounts = []
for number in range(ACCOUNTS):
    desk = factories.a_connected_desk()
    EmailAddress.objects.create(user=desk.user, email=desk.user.email, primary=True, verified=True)
    bots = [factories.a_bot(desk) for _ in range(50)]
    for bot in bots:
        first = SigningSecret.objects.get(automation=bot.automation)
        ended = first.created_at + timedelta(seconds=1)
        for _ in range(18):
            first.pk, first.public_id, first.ends_at = None, new_secret_id(), ended
            first.save(force_insert=True)
    accounts.append({"email": desk.user.email, "password": factories.PASSWORD})
print(json.dumps(accounts))
"""


@dataclass
class Seen:
    """What the others saw: milliseconds of each signal, seconds of each stream, and refusals."""

    signals: list[float] = field(default_factory=list)
    streams: list[float] = field(default_factory=list)
    unavailable: int = 0

    def p99(self) -> float:
        ordered = sorted(self.signals)
        return ordered[int(len(ordered) * 0.99)]


@dataclass(frozen=True)
class Place:
    """Where the attacks happen: the layout, the service, and the accounts that attack.

    ``cookies`` is the session of the seeded user, whom an attack leaves without a sign-in to spare.
    """

    served: Layout
    service: Service
    cookies: str
    accounts: list[dict[str, str]]
    runner: RunnerProcess


class Others:
    """Senders of signals and a reader who opens streams, until ``over`` is set."""

    def __init__(self, place: Place, seen: Seen) -> None:
        self.place, self.seen, self.over = place, seen, threading.Event()
        work = [self._send] * SENDERS + [self._open_streams]
        self._threads = [threading.Thread(target=each) for each in work]

    @contextmanager
    def at_work(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self.over.set()
            for thread in self._threads:
                thread.join()

    def _send(self) -> None:
        service = self.place.service
        headers = {"Authorization": f"Bearer {service.platform}"}
        with client_at(OTHERS) as http:
            while not self.over.is_set():
                began = time.monotonic()
                url = f"{self.place.served.http}/api/hooks/signal"
                answer = http.post(url, json=service.fanout(), headers=headers)
                self.seen.signals.append(1000 * (time.monotonic() - began))
                self.seen.unavailable += answer.status_code == 503
                self.over.wait(PAUSE)

    def _open_streams(self) -> None:
        token = self.place.service.other_desk_token
        headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
        with client_at(OTHERS) as http:
            while not self.over.is_set():
                began = time.monotonic()
                with http.stream("GET", f"{self.place.served.http}{EVENTS}", headers=headers) as on:
                    self.seen.unavailable += on.status_code == 503
                    next(on.iter_bytes(), b"")
                self.seen.streams.append(time.monotonic() - began)
                self.over.wait(0.5)


# --- The attacks ----------------------------------------------------------------------------------

Attack = Callable[[Place, Event], None]


def exports(place: Place, over: Event) -> None:
    """Thirty slow readers of one account's CSV."""
    head = (
        f"GET /activity.csv HTTP/1.1\r\nHost: {ADDRESS}:{place.served.port}\r\n"
        f"Cookie: {place.cookies}\r\nConnection: close\r\n\r\n"
    )
    _all(30, over, lambda: _read_slowly(place.served.port, head.encode(), over))


def _read_slowly(port: int, head: bytes, over: Event) -> None:
    with socket.create_connection((ADDRESS, port), timeout=60) as client:
        client.sendall(head)
        while not over.is_set() and client.recv(16 * 1024):
            over.wait(0.25)
    over.wait(0.1)


def lists(place: Place, over: Event) -> None:
    """150 connections of one token, which ask for lists where streams are served."""
    request = (
        f"GET {EVENTS}?limit=1000 HTTP/1.1\r\nHost: {ADDRESS}:{place.served.port}\r\n"
        f"Authorization: Bearer {place.service.desk_token}\r\n"
        "Accept: text/event-stream;q=0, application/json\r\n\r\n"
    )
    _ask_all(150, place, over, lambda: [request])


def _ask_all(number: int, place: Place, over: Event, requests: Callable[[], list[str]]) -> None:
    """Sends the requests on so many kept connections, again and again, each at its own moment."""

    async def ask(moment: float) -> None:
        await asyncio.sleep(moment)
        while not over.is_set():
            with suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection(
                    ADDRESS, place.served.port, limit=LONGEST
                )
                try:
                    while not over.is_set():
                        for request in requests():
                            writer.write(request.encode())
                            await _read_answer(reader)
                        await asyncio.sleep(PACE)
                finally:
                    writer.close()
            await asyncio.sleep(0.2)

    async def ask_all() -> None:
        await asyncio.gather(*[ask(PACE * one / number) for one in range(number)])

    asyncio.run(ask_all())


async def _read_answer(reader: asyncio.StreamReader) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    _, _, length = head.partition(b"content-length: ")
    if length:
        await reader.readexactly(int(length.split(b"\r\n")[0]))
    else:
        await reader.readuntil(b"\r\n0\r\n\r\n")  # the last chunk


def closings(place: Place, over: Event) -> None:
    """Accounts with 50 bots and a thousand secrets close, each by three requests at once."""
    for account in place.accounts[1:]:
        if over.is_set():
            return
        with _signed_in(place.service, account) as browser, ThreadPoolExecutor(3) as pool:
            forms = [
                pool.submit(browser.post, "/accounts/close/", {"understood": "on"})
                for _ in range(3)
            ]
            assert any(form.result().status_code == 302 for form in forms), "It cannot be closed."


def sign_ins(place: Place, over: Event) -> None:
    """Thirty sign-ins of one address at once, with wrong passwords."""
    with Browser(_own(place.service)) as browser:
        field = CSRF_FIELD.search(browser.get(SIGN_IN).text)
        assert field, "The page shows no form."
        cookies, token = browser.cookie, field[1]

    def requests() -> list[str]:
        login = f"{time.monotonic_ns()}@example.com"
        form = {"login": login, "password": "a wrong one", "csrfmiddlewaretoken": token}
        body = urlencode(form)
        head = (
            f" {SIGN_IN} HTTP/1.1\r\nHost: {ADDRESS}:{place.served.port}\r\n"
            f"Cookie: {cookies}\r\nReferer: {place.served.http}{SIGN_IN}\r\n"
            "Content-Type: application/x-www-form-urlencoded\r\n"
        )
        return [f"GET{head}\r\n", f"POST{head}Content-Length: {len(body)}\r\n\r\n{body}"]

    _ask_all(30, place, over, requests)


def webhooks(place: Place, over: Event) -> None:
    """Webhooks to a server that says 200 to everything, tested and moved back all the time."""
    # Each round has an account with its whole allowance of changes.
    with _victim() as (url, posts), _signed_in(place.service, place.accounts[0]) as browser:
        made = [_made(browser, f"{url}/{number}") for number in range(5)]
        while not over.is_set():
            for webhook in made:
                path = f"/api/v1/subscriptions/{webhook['id']}"
                browser.api("POST", f"{path}/test", {})
                browser.api("POST", f"{path}/rewind", {"cursor": None})
        listed = browser.get("/api/v1/subscriptions").json()["subscriptions"]
        states = {webhook["state"] for webhook in listed}
        for webhook in made:
            browser.api("DELETE", f"/api/v1/subscriptions/{webhook['id']}")
        assert states == {"unverified"}, f"A server that proves nothing was verified: {states}."
        assert len(posts) <= MOST_POSTS, f"{len(posts)} messages to a server that proves nothing."


def _made(browser: Browser, url: str) -> dict[str, Any]:
    answer = browser.api("POST", "/api/v1/subscriptions", {"url": url})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


@contextmanager
def _victim() -> Iterator[tuple[str, list[str]]]:
    posts: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posts.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *arguments: Any) -> None:
            """Nothing."""

    with ThreadingHTTPServer((ADDRESS, 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{ADDRESS}:{server.server_port}", posts
        server.shutdown()


@contextmanager
def _signed_in(service: Service, who: dict[str, str]) -> Iterator[Browser]:
    with Browser(_own(service)) as browser:
        browser.sign_in(who)
        yield browser


def _own(service: Service) -> Service:
    """The service with a connection of this process."""
    return Service(service.base_url, service.seed)


def _all(number: int, over: Event, act: Callable[[], None]) -> None:
    """Acts in so many threads at once, again and again. A broken connection is no failure."""

    def again() -> None:
        while not over.is_set():
            try:
                act()
            except (OSError, httpx2.HTTPError, AssertionError):
                over.wait(0.2)

    with ThreadPoolExecutor(number) as pool:
        for _ in range(number):
            pool.submit(again)


# --- The run --------------------------------------------------------------------------------------

ATTACKS: dict[str, Attack] = {
    "30 slow downloads of a CSV": exports,
    "150 lists where streams are served": lists,
    "closing accounts of 50 bots": closings,
    "webhooks to a stranger": webhooks,
    # The last one: after it the attacker's address signs in nowhere for a minute.
    "30 sign-ins at once": sign_ins,
}


def main(*chosen: str) -> int:
    if not os.environ.get("TEST_DATABASE_URL", "").startswith("postgres"):
        print("One account against all others: not run, TEST_DATABASE_URL names no PostgreSQL.")
        return 0
    missed = []
    with ExitStack() as stack:
        place = _place(stack)
        print("| attack | signals, p99 with ÷ without (ms) | slowest stream, s | 503 |")
        print("| --- | --- | --- | --- |")
        for name, attack in ATTACKS.items():
            if chosen and attack.__name__ not in chosen:
                continue
            calm, attacked = _compare(place, attack)
            ratio, stream = attacked.p99() / calm.p99(), max(attacked.streams)
            times = f"{ratio:.2f} ({attacked.p99():.1f} ÷ {calm.p99():.1f})"
            print(f"| {name} | {times} | {stream:.2f} | {attacked.unavailable} |", flush=True)
            if ratio > MOST_TIMES_AS_LONG or stream > SLOWEST_STREAM or attacked.unavailable:
                missed.append(name)
    print(f"Missed: {', '.join(missed)}" if missed else "All bounds hold.")
    return int(bool(missed))


def _place(stack: ExitStack) -> Place:
    served = stack.enter_context(layout(changed={}, DELIVERY_ALLOW="127.0.0.0/8", **LIMITS))
    web = served.webs[0]
    desk = web.seed["desks"][0]["userId"]
    code = f"DESK, EVENTS, ACCOUNTS = {desk!r}, {EVENTS_OF_ATTACKER}, {ACCOUNTS}\n{PREPARE}"
    accounts = json.loads(manage(web, "shell", "-c", code).splitlines()[-1])
    runner = RunnerProcess(Path(served.folder) / "runner", **web.environment)
    stack.callback(runner.kill)
    service = stack.enter_context(Service(served.http, web.seed))
    with _signed_in(service, web.seed["user"]) as browser:
        cookies = browser.cookie
    return Place(served, service, cookies, accounts, runner)


def _compare(place: Place, attack: Attack) -> tuple[Seen, Seen]:
    """What the others saw without and with the attack, in turns."""
    calm, attacked = Seen(), Seen()
    for number in range(ROUNDS):
        with Others(place, calm).at_work():
            time.sleep(SECONDS)
        attacking = replace(place, accounts=place.accounts[number::ROUNDS])
        with _attacked(attack, attacking), Others(place, attacked).at_work():
            time.sleep(SECONDS)
    return calm, attacked


@contextmanager
def _attacked(attack: Attack, place: Place) -> Iterator[None]:
    forking = multiprocessing.get_context("fork")  # nothing of the place has to be copied
    over = forking.Event()

    def act() -> None:
        os.nice(NICENESS)
        attack(place, over)

    attacker = forking.Process(target=act)
    attacker.start()
    try:
        yield
    finally:
        over.set()
        attacker.join()
    assert attacker.exitcode == 0, "The attack failed."


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""Replaces the processes behind nginx one by one under load, as an upgrade does.

    python -m tests.drills.rolling [ROUNDS]

Two web servers, two live servers and two runners are stopped and started again in the order of
``deploy/OPERATING.md``: SIGTERM, the end, a start, the next one when this one is ready. Meanwhile
bots, an engine, customers in browsers, readers of lists and streams, and webhooks are busy. Last,
Redis is killed and comes back empty. Prints a table and writes it into SECURITY.md.

The exit status is 1 if a request failed while a process was replaced, if anything accepted was
lost, or if a reader or a webhook got anything else than its view of the log. A request has failed
if it got no answer, or 5xx from nginx, or another 5xx than 503. The 503 of the service itself says
that the machine was too busy, and has a column of its own.
"""

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import django
import httpx2

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from tests.client import BOTS, DESKS, EVENTS, ME, SIGNALS, bearer  # noqa: E402
from tests.conformance.streams import MEDIA_TYPE, frames_of  # noqa: E402
from tests.drills.clients import Answer, Book, Client  # noqa: E402
from tests.drills.drill import compared, load, stop, tail, whole_log  # noqa: E402
from tests.drills.faults import redis_is_down  # noqa: E402
from tests.drills.layout import ADDRESS, NAMES, NGINX, UNLIMITED, Layout, fronted  # noqa: E402
from tests.drills.machine import blocks  # noqa: E402
from tests.drills.stage import (  # noqa: E402
    MISSING,
    Process,
    Stage,
    Web,
    stage,
    wait_until,
)
from tests.drills.table import write  # noqa: E402
from tests.guard import PROGRAMS  # noqa: E402
from tests.server import ROOT, Server, free_port, run_python  # noqa: E402
from tests.signals.outbound.listeners import Heard, Request, endpoint, taking  # noqa: E402
from tests.signals.webhooks.runner.oracle import heard  # noqa: E402

BEGIN = "<!-- make drills writes the table of replacements -->\n"
ROUNDS = 3
SHOWN = 20  # of what is wrong
CUSTOMERS = 3
AWAY = 3.0  # seconds without Redis
PAUSE = 0.1  # seconds before the next request of a client, so that the machine is not full
WAIT = 20  # seconds for which a reader waits for what does not come
PAGES = ("/desk", "/activity", "/bots", "/webhooks")
NEVER = "kind=card.retired"  # nobody retires one here
NARROW = "kind=signal.filled"
KINDS = ["election.made", "token.minted", "token.revoked"]
REDIS = "Redis, killed and emptied"
FAILED = (0, 500, 502, 504)
# The 503 of nginx (deploy/refusals.conf), and of a stream that was not opened.
UNREACHED = ("", "Send the same request again after the number of seconds in Retry-After.")
# The shell function with which an operator waits for a server.
READY = blocks()["units: restart"].partition("systemctl")[0]
# Makes a webhook of the platform and one of a desk.
SUBSCRIBE = f"""
import json, sys, django
django.setup()
from desks.models import Desk
from events.actors import SYSTEM
from signals.webhooks.actions import create
user_id, *urls = sys.argv[1:]
owners = [(None, {KINDS!r}), (Desk.objects.get(public_id=user_id), [])]
made = [
    create(desk=desk, kinds=kinds, url=url, actor=SYSTEM)
    for (desk, kinds), url in zip(owners, urls, strict=True)
]
print(json.dumps([[secret, row.cursor_position] for secret, row in made]))
"""


# --- Clients that the other drills do not have ----------------------------------------------------


class Looker(Client):
    """Looks up desks, bots and the signal that was accepted last."""

    def __init__(self, base_url: str, book: Book, seed: dict[str, Any]) -> None:
        super().__init__(base_url, book, PAUSE)
        self.seed = seed

    def act(self) -> None:
        engine, desk = self.seed["platformToken"], self.seed["desks"][0]["deskToken"]
        asked = [(ME, desk), (f"{DESKS}?limit=5", engine), (BOTS, desk)]
        if self.book.accepted:
            asked.append((f"{SIGNALS}/{self.book.accepted[-1].id}", engine))
        for path, token in asked:
            self.expect(self.ask("GET", path, lambda token=token: bearer(token)), 200)  # type: ignore[misc]


class Lister(Client):
    """Reads a desk's feed page by page, from the beginning, again and again."""

    def __init__(self, base_url: str, book: Book, token: str) -> None:
        super().__init__(base_url, book, PAUSE)
        self.token, self.after = token, ""

    def act(self) -> None:
        query = f"{EVENTS}?limit=50" + (f"&after={self.after}" if self.after else "")
        answer = self.ask("GET", query, lambda: bearer(self.token))
        if self.expect(answer, 200):
            page = answer.json()
            self.after = page["next"] if page["more"] else ""


class Waiter(Client):
    """Waits for an event that does not come."""

    waits = WAIT

    def __init__(self, base_url: str, book: Book, token: str, cursor: str) -> None:
        super().__init__(base_url, book)
        self.token, self.query = token, f"{EVENTS}?after={cursor}&{NEVER}&wait={WAIT}"

    def act(self) -> None:
        answer = self.ask("GET", self.query, lambda: bearer(self.token))
        if self.expect(answer, 200) and answer.json()["events"]:
            self.book.odd.append("an event came that nobody caused")


class Visitor(Client):
    """Opens a customer's pages, with the session in which the customer signed in."""

    def __init__(self, base_url: str, book: Book, account: dict[str, Any]) -> None:
        super().__init__(base_url, book, PAUSE)
        self.account = account

    def enter(self) -> None:
        wait_until(lambda: "cookies" in self.account or self.stopping.is_set(), "the sign-in")
        self.http.cookies = httpx2.Cookies(self.account["cookies"])

    def act(self) -> None:
        for page in PAGES:
            answer = self.ask("GET", page)
            if self.expect(answer, 200) and "Sign out" not in answer.text:
                self.book.odd.append(f"{page} was shown to nobody")


class Follower(Client):
    """Follows the feed by streams. ``only`` is a query that narrows it.

    A stream that ends with the reason ``restarting`` is opened again, from its last frame and after
    the time that its first frame named. Any other end, and any other answer than 200, is a failure.
    """

    def __init__(self, base_url: str, book: Book, token: str, cursor: str, only: str = "") -> None:
        super().__init__(base_url, book)
        self.token, self.cursor, self.only = token, cursor, only
        self.seen: list[dict[str, Any]] = []
        self.streams = 0

    def act(self) -> None:
        headers = {**bearer(self.token), "Accept": MEDIA_TYPE, "Last-Event-ID": self.cursor}
        began, status, retry, ended = time.monotonic(), 0, 0, False
        try:
            with self.http.stream("GET", f"{EVENTS}?{self.only}", headers=headers) as answer:
                status = answer.status_code
                self.note(began, status)
                if not self.expect(answer, 200):
                    return
                self.streams += 1
                for frame in frames_of(answer.iter_lines()):
                    retry = int(frame.retry or retry)
                    self.cursor = frame.id or self.cursor
                    if frame.event == "end":
                        ended = json.loads(frame.data)["reason"] == "restarting"
                        break
                    if frame.data:
                        self.seen.append(json.loads(frame.data))
                    if self.stopping.is_set():
                        return
        except httpx2.TransportError:
            ended = False
        if not ended and not self.stopping.is_set():
            self.note(began, 0)
            self.book.odd.append(f"a stream was cut after the answer {status}")
        self.stopping.wait(retry / 1000)

    def expect(self, answer: httpx2.Response, *statuses: int) -> bool:
        answer.status_code == 200 or answer.read()
        return super().expect(answer, *statuses)

    def note(self, began: float, status: int) -> None:
        now = time.monotonic()
        self.book.answers.append(Answer(now, now - began, status, "Follower", status == 503))


# --- The processes --------------------------------------------------------------------------------


@dataclass(slots=True)
class Scene:
    """The service behind nginx. ``replaced`` are its processes by what they are, in order."""

    staged: Stage
    front: Layout
    replaced: list[tuple[str, Process]]


@contextmanager
def scene() -> Iterator[Scene]:
    """nginx, two web servers, two live servers and two runners until the block ends."""
    port, tls_port = free_port(), free_port()
    url = f"http://{ADDRESS}:{port}"
    settings = {
        "BASE_URL": url,
        "ALLOWED_HOSTS": ",".join(NAMES),
        "TRUSTED_PROXIES": "1",
        "DELIVERY_ALLOW": "127.0.0.0/8",
    }
    with (
        stage(customers=CUSTOMERS, away=AWAY, like_a_disk=False, **settings) as staged,
        ExitStack() as stack,
    ):

        def log(name: str) -> Path:
            return staged.log.with_name(name)

        environments = [{**staged.environment, "PORT": str(free_port())}]
        environments += [{**staged.environment, "LIVE_PORT": str(free_port())} for _ in range(2)]
        webs = [staged.web, Web(environments[0], log("web-2"))]
        lives = [
            Web(environment, log(f"live-{number}"), PROGRAMS["live"], "LIVE_PORT")
            for number, environment in enumerate(environments[1:], 1)
        ]
        command = ["setpriv", "--pdeathsig=KILL", *PROGRAMS["deliver"]]
        runners = [
            Process(command, log(f"runner-{number}"), cwd=ROOT, env=staged.environment)
            for number in (1, 2)
        ]
        for process in (webs[1], *lives, *runners):
            process.start()
            stack.callback(process.end, signal.SIGTERM)
        for server in (*webs, *lives):
            server.wait_until_ready()
        served = [
            Server(url, staged.cast["seed"], environment, staged.log)
            for environment in (staged.environment, *environments)
        ]
        replaced: list[tuple[str, Process]] = [
            *(("a web server", web) for web in webs),
            *(("a live server", live) for live in lives),
            *(("a runner", runner) for runner in runners),
        ]
        with fronted(port, tls_port, tuple(served[:2]), tuple(served[2:]), UNLIMITED) as front:
            yield Scene(replace(staged, base_url=url), front, replaced)


def is_replaced(process: Process) -> None:
    """What ``systemctl restart`` does, and then what the operator waits for."""
    process.end(signal.SIGTERM)
    process.start()
    if isinstance(process, Web):
        process.wait_until_ready()  # the operator's machine takes less than a minute
        lines = f"PUBLIC_NAME={ADDRESS}\n{READY}ready {urlsplit(process.base_url).port}"
        subprocess.run(["bash", "-euo", "pipefail", "-c", lines], check=True)


# --- The drill ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Moment:
    """Something that was done under load, with its start and its end on the monotonic clock."""

    what: str
    began: float
    ended: float


@dataclass(slots=True)
class Result:
    """What a drill found: ``wrong`` describes everything that must not occur."""

    rows: list[dict[str, object]]
    wrong: list[str]


def drill(here: Scene, rounds: int) -> Result:
    """Replaces every process so many times under load."""
    staged, book = here.staged, Book()
    seed, customers, url = staged.cast["seed"], staged.cast["customers"], staged.base_url
    desk, cursor = seed["desks"][0], str(tail(staged)["next"])
    followers = {
        "": Follower(url, book, seed["platformToken"], cursor),
        f"userId={desk['userId']}": Follower(url, book, desk["deskToken"], cursor),
        NARROW: Follower(url, book, seed["readToken"], cursor, NARROW),
    }
    others: list[Client] = [
        Looker(url, book, seed),
        Lister(url, book, desk["deskToken"]),
        *(Waiter(url, book, one["deskToken"], cursor) for one in seed["desks"][1:4]),
        *(Visitor(url, book, customer) for customer in customers),
    ]
    with webhooks(staged) as hooks:
        with load(staged, book, cursor, PAUSE):
            for client in (*followers.values(), *others):
                client.start()
            wait_until(lambda: book.odd or all(each.seen for each in followers.values()), "streams")
            moments = list(_moments(here, book, rounds))
            stop(others, book)
        for only, follower in followers.items():
            expected = [event["position"] for event in whole_log(staged, cursor, only)]
            _compare(
                book,
                f"the stream {only}",
                expected,
                lambda each=follower: [event["position"] for event in list(each.seen)],  # type: ignore[misc]
            )
        for hook in hooks:
            events = whole_log(staged, cursor, hook.view)
            expected = [one["position"] for one in events if one["position"] > hook.start]
            wait_until(lambda: len(hook.events()) >= len(expected), "the deliveries")  # noqa: B023
            _compare(book, f"the webhook {hook.view}", expected, hook.positions)
        stop(list(followers.values()), book)
    checks = compared(staged, book, whole_log(staged, cursor))
    wrong = [f"{what}: {count}" for what, count in checks.items() if count]
    return Result(list(_rows(book, moments)), wrong + _failures(book, moments) + book.odd)


def _failures(book: Book, moments: Sequence[Moment]) -> list[str]:
    """The requests that failed, but for those that may without Redis."""
    found = []
    for moment, end in _spans(moments):
        for answer in book.answers:
            if has_failed(answer) and moment.began <= answer.at < end and moment.what != REDIS:
                since, lasted = answer.at - moment.began, moment.ended - moment.began
                found.append(
                    f"{answer.what}: {answer.status} after {answer.took:.1f} s, {since:.1f} s from "
                    f"the stop of {moment.what} ({lasted:.1f} s): {answer.said}"
                )
    return found


def has_failed(answer: Answer) -> bool:
    return answer.status in FAILED or (answer.status == 503 and answer.said in UNREACHED)


def is_refused(answer: Answer) -> bool:
    return answer.status == 503 and answer.said not in UNREACHED


def _spans(moments: Sequence[Moment]) -> list[tuple[Moment, float]]:
    """Each moment with the beginning of the next one."""
    ends = [*(moment.began for moment in moments[1:]), math.inf]
    return list(zip(moments, ends, strict=True))


def _moments(here: Scene, book: Book, rounds: int) -> Iterator[Moment]:
    """Replaces every process, one after the other, and then takes Redis away."""
    staged = here.staged
    for number in range(rounds):
        for what, process in here.replaced:
            yield _under_load(book, what, lambda each=process: is_replaced(each))  # type: ignore[misc]
        print(f"Round {number + 1} of {rounds}.", file=sys.stderr, flush=True)
    yield _under_load(book, REDIS, lambda: redis_is_down(staged, book))


def _under_load(book: Book, what: str, act: Callable[[], object]) -> Moment:
    """Acts, and waits until signals are accepted after it."""
    began = time.monotonic()
    act()
    ended = time.monotonic()
    wait_until(lambda: book.accepted[-1].at > ended, "another acceptance")
    return Moment(what, began, ended)


def _compare(book: Book, what: str, expected: list[int], found: Callable[[], list[int]]) -> None:
    """Waits until the last one is there. Records if it is not exactly what is expected."""
    wait_until(lambda: len(found()) >= len(expected), what)
    if (got := found()) != expected:
        missing = sorted(set(expected) - set(got))
        others = sorted(set(got) - set(expected))
        twice = len(got) - len(set(got))
        book.odd.append(f"{what}: {missing} are missing, {others} are others, {twice} came again")


def _rows(book: Book, moments: Sequence[Moment]) -> Iterator[dict[str, object]]:
    """A row for each kind of process. A request counts for the moment before its end."""
    for what in dict.fromkeys(moment.what for moment in moments):
        spans = [(each, end) for each, end in _spans(moments) if each.what == what]

        def within(at: float, spans: Sequence[tuple[Moment, float]] = spans) -> bool:
            return any(each.began <= at < end for each, end in spans)

        answers = [answer for answer in book.answers if within(answer.at)]
        signals = [accepted for accepted in book.accepted if within(accepted.at)]
        yield {
            "replaced": what,
            "times": len(spans),
            "requests": len(answers),
            "failed": sum(has_failed(answer) for answer in answers),
            "refused by a busy service": sum(is_refused(answer) for answer in answers),
            "signals accepted": len(signals),
            "of them answered on retry": sum(accepted.again for accepted in signals),
            "streams opened": sum(a.what == Follower.__name__ for a in answers),
            "slowest answer, s": max((a.took for a in answers if a.what != "Follower"), default=0),
            "longest replacement, s": max(each.ended - each.began for each, _ in spans),
        }


# --- Webhooks -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Hook:
    """A webhook: what its endpoint heard, its secret, its first cursor, and its view as a query."""

    endpoint: Heard
    secret: str
    start: int
    view: str

    def events(self) -> list[Request]:
        """What it was sent, without tests."""
        requests = list(self.endpoint.requests)
        return [each for each in requests if each.headers["webhook-id"].startswith("evt_")]

    def positions(self) -> list[int]:
        """The positions of what it was sent, in order. Every signature is valid."""
        return heard(self.events(), [self.secret])


@contextmanager
def webhooks(staged: Stage) -> Iterator[list[Hook]]:
    """One of the platform and one of a desk, until the block ends."""
    with endpoint() as platforms, endpoint() as desks:
        user = staged.cast["customers"][0]["userId"]
        environment = {**staged.environment, "LOG_LEVEL": "error"}
        made = json.loads(
            run_python(environment, "-c", SUBSCRIBE, user, platforms.url(), desks.url())
        )
        views = ("&".join(f"kind={kind}" for kind in KINDS), f"userId={user}")
        hooks = [
            Hook(each, secret, start, view)
            for each, (secret, start), view in zip((platforms, desks), made, views, strict=True)
        ]
        for hook in hooks:
            hook.endpoint.answer = taking(hook.secret)
        yield hooks


def main() -> int:
    if MISSING or NGINX is None:
        sys.exit(f"The drill needs {', '.join(MISSING or ['nginx'])}.")
    rounds = int(sys.argv[1]) if sys.argv[1:] else ROUNDS
    with scene() as here:
        result = drill(here, rounds)
        if result.wrong:
            for log in here.staged.log.parent.glob("*"):
                print(f"--- {log}\n{log.read_text()[-3000:] if log.is_file() else ''}")
    write(BEGIN, result.rows)
    print(f"Replaced {rounds} times each: {result.wrong[:SHOWN] or 'well'}")
    return int(bool(result.wrong))


if __name__ == "__main__":
    sys.exit(main())

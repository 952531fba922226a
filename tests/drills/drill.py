"""A drill: causes faults under load, and compares the clients' records with the log."""

import json
import math
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from itertools import pairwise
from typing import Any, NamedTuple

import httpx2

from tests.client import EVENTS, bearer
from tests.drills.clients import PASSING, Accepted, Book, Bot, Client, Customer, Engine, Reader
from tests.drills.faults import GRACEFUL
from tests.drills.stage import Stage, wait_until

Fault = Callable[[Stage, Book], float]  # causes the fault and returns when it was over
Event = dict[str, Any]

ENGINES = 6  # enough for signals to wait for the log together
SETTLED = 60  # seconds after which a client without an outcome is stuck
FEW = 5
AUDITS = 5
NEVER = ("lost", "twice", "gaps", "half")
AT_MOST = {"slowest_503": 2.0, "outage": 5.0}  # seconds
TURNS = re.compile(r'^signals_batch_size_bucket{le="([^"]+)"} (\S+)$', re.MULTILINE)
ELECTIONS = ("election.made", "election.withdrawn")


@dataclass(frozen=True, slots=True)
class Row:
    """The result of a drill.

    ``unanswered`` counts requests whose connection broke, ``refused`` answers of 503. ``again``
    counts accepted signals whose sender learned so only from a retry. ``shared`` counts turns at
    the log with more than one signal, as far as ``/metrics`` still knew them. ``gaps`` counts
    positions that do not follow the one before. ``half`` counts what the audit finds broken.
    ``slowest_503``, ``silence`` and ``outage`` are seconds. ``silence`` is the longest time in
    which no signal was accepted. An outage lasts from the end of the fault to the
    last failed request or to the first successful one, whichever is later. ``odd`` describes what
    no fault explains.
    """

    fault: str
    times: int
    answers: int
    unanswered: int
    refused: int
    accepted: int
    again: int
    shared: int
    lost: int
    twice: int
    gaps: int
    half: int
    slowest_503: float
    silence: float
    outage: float
    odd: list[str]

    def wrong(self) -> list[str]:
        """The results that must not occur."""
        found = [f"{name}: {getattr(self, name)}" for name in NEVER if getattr(self, name)]
        return found + self.odd[:FEW]

    def slow(self) -> list[str]:
        """The durations that exceed their limit."""
        taken = {name: getattr(self, name) for name in AT_MOST}
        return [f"{name}: {taken[name]:.1f} s" for name in AT_MOST if taken[name] > AT_MOST[name]]


class Moment(NamedTuple):
    """A fault, with its start and its end."""

    fault: Fault
    began: float
    over: float


def drill(
    stage: Stage, name: str, faults: Sequence[Fault], *, pause: float, rest: float = 0
) -> Row:
    """Causes the faults under load, one after the other, about ``pause`` seconds apart.

    ``rest`` is the pause of each client (``load``).
    """
    book, cursor = Book(), str(tail(stage)["next"])
    moments, shared = [], [shared_turns(stage)]
    with load(stage, book, cursor, rest):
        for fault in faults:
            moments.append(bring_about(stage, book, fault, pause))
            shared.append(shared_turns(stage))
        end = time.monotonic()
    log = whole_log(stage, cursor)
    look_for_oddities(book, log, moments)
    found = compared(stage, book, log)
    refusals = [
        answer for answer in book.answers if answer.status == HTTPStatus.SERVICE_UNAVAILABLE
    ]
    return Row(
        fault=name,
        times=len(faults),
        answers=sum(bool(answer.status) for answer in book.answers),
        unanswered=sum(not answer.status for answer in book.answers),
        refused=len(refusals),
        accepted=acceptances(book).total(),
        again=sum(accepted.again for accepted in book.accepted),
        shared=growth(shared),
        lost=found["lost"],
        twice=found["twice"],
        gaps=found["gaps"],
        half=found["half"],
        slowest_503=max((answer.took for answer in refusals), default=0),
        silence=max(now.at - before.at for before, now in pairwise(by_time(book))),
        outage=longest_outage(book, moments, end),
        odd=book.odd,
    )


def bring_about(stage: Stage, book: Book, fault: Fault, pause: float) -> Moment:
    """Causes a fault and waits until the service accepts signals again."""
    began = time.monotonic()
    over = fault(stage, book)
    time.sleep(random.uniform(0.5, 1.5) * pause)
    wait_until(lambda: book.accepted[-1].at > over, "another acceptance")
    return Moment(fault, began, over)


# --- The load -----------------------------------------------------------------------------------


@contextmanager
def load(stage: Stage, book: Book, cursor: str, pause: float = 0) -> Iterator[None]:
    """Runs bots, engines, customers and a reader until the block ends.

    ``pause`` is how many seconds each waits before its next signal or change.
    """
    url, seed, customers = stage.base_url, stage.cast["seed"], stage.cast["customers"]
    reader = Reader(url, book, seed["platformToken"], cursor)
    busy: list[Client] = [
        *(Bot(url, book, customer) for customer in customers),
        *(Engine(url, book, seed) for _ in range(ENGINES)),
        *(Customer(url, book, customer) for customer in customers),
    ]
    for client in busy:
        client.pause = pause
    for client in [reader, *busy]:
        client.start()
    wait_until(lambda: len(book.minted) >= len(customers) or book.odd, "the load")
    yield
    stop(busy, book)
    head = tail(stage)["events"][0]["position"]
    wait_until(lambda: book.odd or book.read[-1]["position"] >= head, "the reader's end")
    stop([reader], book)


def stop(clients: Sequence[Client], book: Book) -> None:
    for client in clients:
        client.stopping.set()
    for client in clients:
        client.join(SETTLED)
        if client.is_alive():
            book.odd.append(f"{type(client).__name__} does not learn what became of its request")


# --- Results ----------------------------------------------------------------------------------


def compared(stage: Stage, book: Book, log: Sequence[Event]) -> dict[str, int]:
    """How much that the clients know is not in the log, and so on: see ``Row``."""
    known, found = acceptances(book), happened(log, book)
    return {
        "lost": (known - found).total(),
        "twice": (found - known).total(),
        "gaps": sum(one["position"] + 1 != other["position"] for one, other in pairwise(log)),
        "half": broken(stage),
    }


def acceptances(book: Book) -> Counter[Any]:
    """What the clients know has happened, in the form of ``happened``."""
    expected: Counter[Any] = Counter({(a.position, a.id, a.nonce) for a in book.accepted})
    for desk, changes in book.changes.items():
        expected.update((desk, kind) for kind in changes)
    expected.update(("token.minted", token) for token in book.minted)
    expected.update(("token.revoked", token) for token in book.revoked)
    return expected


def happened(log: Sequence[Event], book: Book) -> Counter[Any]:
    """The signals, the elections on the card and the tokens in the log.

    Tokens that no client received are left out: their owners minted again, which revoked them.
    """
    found: Counter[Any] = Counter()
    for event in log:
        if event["signal"]:
            signal = event["signal"]
            found[event["position"], signal["id"], signal["nonce"]] += 1
        elif event["kind"] in ELECTIONS:
            found[event["userId"], event["kind"]] += 1
        elif event["data"].get("id") in book.minted:
            found[event["kind"], event["data"]["id"]] += 1
    return found


def look_for_oddities(book: Book, log: Sequence[Event], moments: Sequence[Moment]) -> None:
    """Records what no fault may cause."""
    for moment, end in until_the_next(moments, math.inf):
        since = (accepted for accepted in book.accepted if moment.began < accepted.at < end)
        if moment.fault in GRACEFUL and any(accepted.again for accepted in since):
            book.odd.append("a server that stopped did not finish its requests")
    if [event["position"] for event in book.read] != [event["position"] for event in log]:
        book.odd.append("the reader saw another log")
    if not all(answer.retry_after for answer in book.answers if answer.status == 503):
        book.odd.append("a 503 without Retry-After")
    nonces = {event["signal"]["nonce"] for event in log if event["signal"]}
    if nonces & book.cut:
        book.odd.append("a signal whose body was cut off was accepted")


def longest_outage(book: Book, moments: Sequence[Moment], end: float) -> float:
    """From the end of a fault to the last failed request or the first successful one."""
    longest = 0.0
    for moment, following in until_the_next(moments, end):
        since = [answer for answer in book.answers if moment.over <= answer.at < following]
        failed = [answer.at - moment.over for answer in since if answer.status in PASSING]
        served = [answer.at - moment.over for answer in since if answer.status not in PASSING]
        longest = max(longest, *failed, min(served, default=following - moment.over))
    return longest


def by_time(book: Book) -> list[Accepted]:
    """What was accepted, the earliest first."""
    return sorted(book.accepted, key=lambda accepted: accepted.at)


def until_the_next(moments: Sequence[Moment], end: float) -> Iterable[tuple[Moment, float]]:
    """Each fault with the start of the next one."""
    return zip(moments, [*(moment.began for moment in moments[1:]), end], strict=True)


def broken(stage: Stage) -> int:
    """How many things the audit finds broken while the service runs.

    On a busy machine it may get no connection, and is run again.
    """
    for _ in range(AUDITS):
        done = stage.manage("audit", "--json")
        if done.stdout:
            break
    assert done.stdout, done.stderr
    return sum(promise["broken"] for promise in json.loads(done.stdout)["promises"])


def shared_turns(stage: Stage) -> int:
    """How many turns wrote more than one signal, since the service was started."""
    url, headers = f"{stage.web.base_url}/metrics", bearer(stage.environment["METRICS_TOKEN"])
    answer = httpx2.get(url, headers=headers, trust_env=False)
    answer.raise_for_status()
    turns = {upto: float(number) for upto, number in TURNS.findall(answer.text)}
    return int(turns["+Inf"] - turns["1.0"]) if turns else 0


def growth(counts: Sequence[int]) -> int:
    """By how much a counter grew, which begins at 0 again when the service is started."""
    pairs = pairwise(counts)
    return sum(now - before if now >= before else now for before, now in pairs)


# --- The log, as the platform reads it ----------------------------------------------------------


def tail(stage: Stage) -> dict[str, Any]:
    """The newest event, and the cursor behind it."""
    return _page(stage, "order=desc&limit=1")


def whole_log(stage: Stage, cursor: str, only: str = "") -> list[Event]:
    """All events after a cursor. ``only`` is a query that narrows them."""
    events: list[Event] = []
    more = True
    while more:
        page = _page(stage, f"after={cursor}&limit=1000&{only}")
        events += page["events"]
        cursor, more = page["next"], page["more"]
    return events


def _page(stage: Stage, query: str) -> dict[str, Any]:
    url = f"{stage.base_url}{EVENTS}?{query}"
    headers = bearer(stage.cast["seed"]["platformToken"])
    answer = httpx2.get(url, headers=headers, trust_env=False, timeout=SETTLED)
    answer.raise_for_status()
    page: dict[str, Any] = answer.json()
    return page

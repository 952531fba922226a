"""Measures the live server: thousands of readers of the stream, each of another desk.

The readers are one process (``tests.bench.readers``), the signals come through gunicorn, as ever.
Everything shares one machine. Times are from the event's ``at``, which its turn takes before the
commit, until the reader's process has the bytes.
"""

import http.client
import json
import os
import secrets
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

from tests.bench import load
from tests.bench.line import Effort, Line
from tests.bench.readers import Readers, readers_of
from tests.server import Server, manage, process_of, serving, serving_live

FEW = 1000  # readers
SINGLE = 300  # events to one reader each
FAN_OUTS = 5
RATE = 200  # pushes a second
SLOW_RATE = 10
BACK, VISIBLE = 1000, 10  # positions that readers come back from, and those that each sees
OTHERS = 20  # desks without a reader
AT_ONCE = 64  # streams that are opened at once, except when all come back
PUSHERS = 16
IN_TIME = 1  # seconds after the last push
METRICS_TOKEN = secrets.token_hex(16)

# Desk tokens without their events: minting them one by one would take longer than the measurement.
MINT = """
import json
from django.utils import timezone
from desks.models import Desk
from tokens.choices import Scope
from tokens.crypto import formats, keys
from tokens.models import Token
desks = list(Desk.objects.filter(tokens=None).order_by("id")[:{count}])
values = [formats.new(formats.DESK_TOKEN) for _ in desks]
def row(desk, value):
    digest, key_id = keys.new_digest(value)
    return Token(scope=Scope.DESK, desk=desk, name="Reader", can_read=True, digest=digest,
                 key_id=key_id, hint=formats.hint(value), created_at=timezone.now())
Token.objects.bulk_create(map(row, desks, values))
print(json.dumps([(desk.public_id, value) for desk, value in zip(desks, values, strict=True)]))
"""


@dataclass(slots=True)
class Stage:
    """The servers, the readers, and what the readers must have got."""

    server: Server
    live: Server
    readers: Readers
    engine: httpx2.Client
    desks: list[tuple[str, str]]
    expected: dict[str, int]

    def signal(self, user_id: str | None = None) -> tuple[int, float]:
        """Sends a fan-out, or a signal to one desk. Returns its position and time."""
        said = load.send(self.engine, self.server.seed["card"], user_id)
        return said["position"], datetime.fromisoformat(said["receivedAt"]).timestamp()


def lines(effort: Effort) -> Iterator[Line]:
    """The lines of the live server."""
    many, few = effort.readers, min(FEW, effort.readers // 5)
    with _stage(many) as stage:
        process = process_of(stage.live)
        alone = statistics.median(_answered(stage.server, RATE, effort) for _ in range(3))
        _warm_up(stage)
        empty = resident_memory(process)
        _open(stage, 0, few)
        yield from _single(stage, few)
        yield _fan_outs(stage, few, most=0.25)
        idle = _statements(stage, effort)
        _open(stage, few, many)
        held = stage.readers.report()["open"]
        yield Line("readers held by one live process", held, least=many)
        each = (resident_memory(process) - empty) / many / 1024
        # With few readers most of it is what does not depend on their number.
        most = 14 if effort.whole else None
        yield Line(f"memory of the live process ÷ {many:,} readers (KiB)", each, most=most)
        yield _fan_outs(stage, many, most=1.0)
        yield Line(
            f"SQL statements a second of the live process, {many:,} readers, {SLOW_RATE} signals/s",
            _statements(stage, effort),
            most=60,
            note=f"{few:,} readers: {idle:.1f}",
        )
        beside = statistics.median(_answered(stage.server, RATE, effort) for _ in range(3))
        yield Line(
            f"pushes answered of {RATE} offered a second, beside {many:,} readers ÷ without",
            beside / alone,
            least=0.9,
            note=f"without: {alone:.1%}",
        )
        yield from _come_back(stage, many)
        yield _mistakes(stage)


@contextmanager
def _stage(many: int) -> Iterator[Stage]:
    counting = {
        "DJANGO_SETTINGS_MODULE": "tests.bench.live_settings",
        "METRICS_TOKEN": METRICS_TOKEN,
    }
    with (
        serving(ready=many + OTHERS, idle=0) as server,
        serving_live(server, **counting) as live,
        readers_of(live.base_url) as readers,
        load.engine(server) as engine,
    ):
        minted = manage(server, "shell", "--no-imports", "-c", MINT.format(count=many))
        desks = [(user_id, token) for user_id, token in json.loads(minted)]
        yield Stage(server, live, readers, engine, desks, {})


def _warm_up(stage: Stage) -> None:
    """Lets the live server load what the first readers make it load."""
    with readers_of(stage.live.base_url) as some:
        some.open([(desk["userId"], desk["deskToken"]) for desk in _first_desks(stage)], AT_ONCE)
        position, _ = stage.signal()
        assert some.heard(position, len(_first_desks(stage)))["last"]


def _first_desks(stage: Stage) -> list[dict[str, str]]:
    desks: list[dict[str, str]] = stage.server.seed["desks"]
    return desks


def _open(stage: Stage, first: int, last: int) -> None:
    opened = stage.readers.open(stage.desks[first:last], AT_ONCE)
    assert opened["statuses"] == {"200": last - first}, opened
    stage.expected |= {user_id: 0 for user_id, _ in stage.desks[first:last]}


def _single(stage: Stage, few: int) -> Iterator[Line]:
    """Events to one reader each, of ``few`` who wait."""
    lags = []
    for number in range(SINGLE):
        user_id, _ = stage.desks[number * 7 % few]
        position, at = stage.signal(user_id)
        stage.expected[user_id] += 1
        lags.append(_last(stage.readers.heard(position, 1), 1) - at)
    lags.sort()
    yield Line(
        f"one event to one of {few:,} readers, p99 (ms)",
        lags[int(0.99 * len(lags))] * 1000,
        most=200,
        note=f"median {statistics.median(lags) * 1000:.0f} ms",
    )


def _fan_outs(stage: Stage, readers: int, most: float) -> Line:
    """A fan-out to all readers: when the last of them has it."""
    slowest = []
    for _ in range(FAN_OUTS):
        position, at = stage.signal()
        slowest.append(_last(stage.readers.heard(position, readers), readers) - at)
        stage.expected = {user_id: count + 1 for user_id, count in stage.expected.items()}
        time.sleep(1)  # the machine's other work of a fan-out is over
    name = f"a fan-out reaches {readers:,} readers, slowest (s)"
    note = f"median of {FAN_OUTS}: {statistics.median(slowest):.3g} s"
    return Line(name, max(slowest), most=most, note=note)


def _last(heard: dict[str, Any], readers: int) -> float:
    assert heard["readers"] == readers, heard
    last: float = heard["last"]
    return last


def _statements(stage: Stage, effort: Effort) -> float:
    """The live server's SQL statements a second while a few signals come."""
    seconds = effort.seconds * 5
    before = _counted(stage.live)
    _answered(stage.server, SLOW_RATE, effort, seconds)
    return (_counted(stage.live) - before) / seconds


def _counted(live: Server) -> float:
    headers = {"Authorization": f"Bearer {METRICS_TOKEN}"}
    page = httpx2.get(f"{live.base_url}/metrics", headers=headers, trust_env=False, timeout=30).text
    found = (line.split() for line in page.splitlines())
    return next(float(words[1]) for words in found if words[:1] == ["bench_statements_total"])


def _come_back(stage: Stage, many: int) -> Iterator[Line]:
    """All readers come back at once, from a thousand positions behind."""
    stage.readers.close_all()
    _move_on(stage)
    found = stage.readers.come_back(VISIBLE, at_once=many)
    stage.expected = {user_id: count + VISIBLE for user_id, count in stage.expected.items()}
    assert not found["behind"], found
    yield Line(
        f"{many:,} readers come back at once, {BACK:,} positions behind: all caught up (s)",
        found["seconds"],
        most=60,
    )
    others = sum(count for status, count in found["statuses"].items() if status != "200")
    yield Line("of them, answers that are not 200", others, most=0)


def _move_on(stage: Stage) -> None:
    """Writes events that no reader sees, and some that all see."""
    readers = {user_id for user_id, _ in stage.desks}
    others = [desk["userId"] for desk in _first_desks(stage) if desk["userId"] not in readers]
    every = BACK // VISIBLE
    for number in range(BACK):
        stage.signal(None if number % every == 0 else others[number % len(others)])


def _mistakes(stage: Stage) -> Line:
    """What a reader missed, got twice, or should not have got."""
    time.sleep(1)  # for what is too much
    found = stage.readers.report()
    expected = [stage.expected[user_id] for user_id, _ in stage.desks]
    missed = sum(abs(count - due) for count, due in zip(found["counts"], expected, strict=True))
    note = f"{sum(expected):,} events"
    name = "events missed, doubled, or of another desk, over all of these"
    return Line(name, missed + found["doubled"] + found["wrong"], most=0, note=note)


def resident_memory(process: int) -> int:
    """The resident bytes of a process."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _answered(server: Server, rate: int, effort: Effort, seconds: int | None = None) -> float:
    """Offers pushes at a steady rate. Returns the share that is answered in time."""
    seconds = seconds or effort.seconds * 2
    push = load.push(server)
    requests = list(push.lines(rate * seconds))
    began = time.monotonic() + 0.1
    due = iter([(began + number / rate, line) for number, line in enumerate(requests)])
    lock, answered = threading.Lock(), [0] * PUSHERS

    def work(pusher: int) -> None:
        connection = http.client.HTTPConnection(urlsplit(server.base_url).netloc, timeout=30)
        while True:
            with lock:
                at, line = next(due, (0.0, ""))
            if not line:
                return
            time.sleep(max(0.0, at - time.monotonic()))
            status = _push(connection, push, line)
            answered[pusher] += status == 200 and time.monotonic() < began + seconds + IN_TIME

    with ThreadPoolExecutor(PUSHERS) as threads:
        list(threads.map(work, range(PUSHERS)))
    return sum(answered) / len(requests)


def _push(connection: http.client.HTTPConnection, push: load.Load, line: str) -> int:
    *signed, body = line.split("\t")
    headers: dict[str, str] = dict(zip(push.signing_headers, signed, strict=True))
    connection.request("POST", urlsplit(push.url).path, body, headers)
    response = connection.getresponse()
    response.read()
    return response.status

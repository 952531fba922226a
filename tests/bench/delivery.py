"""Measures the runner of webhooks. Endpoints are one process (``tests.bench.endpoints``).

Everything shares one machine. Times are from the event's ``at``, which its turn takes before the
commit, until the endpoint's process has the message.
"""

import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import httpx2

from tests.bench import load
from tests.bench.endpoints import Endpoints, endpoints
from tests.bench.growth import connect
from tests.bench.line import Effort, Line
from tests.server import Server, manage, serving
from tests.server import delivering as runner_of

RATE = 20  # events a second
FAN_OUTS = 5
IDLE = 10_000  # subscriptions
IDLE_SECONDS = 10
LONGER = 3  # times the usual duration: the runner takes little, so noise would hide it
START = 1.0  # seconds after the start until the runner has looked at everybody
# Each endpoint is on the same host: its rate is counted, and never used up.
HOST_RATE: Any = {"DELIVERY_HOST_RATE": "100000/second"}

# Subscriptions without their events: the product's action would take a turn at the log for each.
SUBSCRIBE = """
from django.utils import timezone
from desks.models import Desk
from events.models import Head
from signals.webhooks.models import Subscription, SubscriptionSecret
from tokens.crypto import formats
head, now = Head.objects.get(), timezone.now()
desks = [None] if {platform} else list(Desk.objects.order_by("id")[:{count}])
rows = []
for number in range({count}):
    url = {urls!r}[number % {kinds}]
    for of_desk in range({hanging} if "/never/" in url else 1):
        row = Subscription(desk=desks[number % len(desks)], state="active", is_verified=True,
            host="127.0.0.1", created_at=now, cursor_epoch=head.epoch,
            cursor_position=0 if {platform} else head.position)
        row.encrypt(url + str(number) + "/" + str(of_desk))
        rows.append(row)
Subscription.objects.bulk_create(rows, batch_size=1000)
made = []
for row in rows:
    text = formats.new_webhook_secret()
    secret = SubscriptionSecret(subscription=row, hint=formats.hint(text), created_at=now)
    secret.encrypt(text)
    made.append(secret)
SubscriptionSecret.objects.bulk_create(made, batch_size=1000)
"""
UNSUBSCRIBE = "TRUNCATE signals_subscription CASCADE"
# The desk of the pushes: nobody is told of them.
PAUSE = """
UPDATE signals_subscription SET state = 'paused'
WHERE desk_id = (SELECT desk_id FROM desks_automation WHERE id = %s)
RETURNING (SELECT public_id FROM desks_desk WHERE id = desk_id)
"""
LEASED = "SELECT count(*) FROM signals_subscription WHERE leased_until > now()"
FAILED = "SELECT count(*) FROM signals_deliveryattempt WHERE error = 'timeout'"
# Many events that only the platform sees.
GROW = """
INSERT INTO events_event (position, kind, at, content)
SELECT head.position + i, 'signal.refused', now(),
    jsonb_build_object('signal', NULL, 'data', jsonb_build_object('code', 'nonce_used'))
FROM events_head AS head, generate_series(1, {count}) AS i;
UPDATE events_head SET position = position + {count};
"""
TRANSACTIONS = """
SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()
"""


@dataclass(slots=True)
class Stage:
    server: Server
    endpoints: Endpoints
    engine: httpx2.Client
    desks: list[str]

    def signal(self, user_id: str | None = None) -> None:
        """Sends a fan-out, or a signal to one desk."""
        load.send(self.engine, self.server.seed["card"], user_id)

    def count(self, query: str) -> int:
        with connect(self.server) as database:
            found = database.execute(query).fetchone()  # type: ignore[call-overload]
        return int(found[0])

    def until_only(self, leased: int) -> None:
        """Waits until nobody is delivered to but so many: what was delivered is saved."""
        deadline = time.monotonic() + 30
        while self.count(LEASED) > leased:
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def without_the_desk_of_pushes(self, many: int) -> list[str]:
        """Pauses the subscription of the desk whose bot pushes. Returns the other desks."""
        bot = self.server.seed["automation"]["botId"]
        with connect(self.server) as database:
            paused = {row[0] for row in database.execute(PAUSE, [bot]).fetchall()}
        return [desk for desk in self.desks[:many] if desk not in paused]

    @contextmanager
    def subscribed(
        self,
        *paths: str,
        count: int,
        platform: bool = False,
        runner: bool = True,
        hanging: int = 1,
    ) -> Iterator[None]:
        """Subscriptions of the first desks to these endpoints in turn, and a runner.

        A desk has so many of those that hang.
        """
        urls = [self.endpoints.url(path) for path in paths]
        given: dict[str, Any] = {"count": count, "urls": urls, "kinds": len(urls)}
        code = SUBSCRIBE.format(platform=platform, hanging=hanging, **given)
        manage(self.server, "shell", "--no-imports", "-c", code)
        try:
            with delivering(self.server) if runner else nullcontext():
                if runner and not platform:
                    self.signal(self.desks[0])
                    self.endpoints.until_heard(1, 60)
                yield
        finally:
            with connect(self.server) as database:
                database.execute(UNSUBSCRIBE)
            self.endpoints.heard()


@contextmanager
def delivering(server: Server) -> Iterator[None]:
    """A runner, for as long as the block lasts."""
    with runner_of(server):
        time.sleep(START)
        yield


def lines(effort: Effort) -> Iterator[Line]:
    """The lines of the runner."""
    many = 1000 if effort.whole else 100
    with (
        serving(ready=many, idle=0, **HOST_RATE) as server,
        endpoints() as heard,
        load.engine(server) as engine,
    ):
        with connect(server) as database:
            found = database.execute("SELECT public_id FROM desks_desk ORDER BY id").fetchall()
        stage = Stage(server, heard, engine, [row[0] for row in found])
        yield from _single(stage, many, effort)
        yield from _fan_outs(stage, many)
        yield from _soon(stage, many)
        yield from _hanging(stage, many, effort, of_fifty=5, each=1)
        yield from _hanging(stage, many, effort, of_fifty=3, each=5)
        yield from _behind(stage, effort)
        yield from _idle(stage, effort)
        yield from _beside(stage, many, effort)


def _single(stage: Stage, many: int, effort: Effort) -> Iterator[Line]:
    with stage.subscribed("/now/", count=many):
        lags = _lags(stage, stage.desks[:many], effort)
    name = f"commit to endpoint, {many:,} desks' subscriptions, {RATE} events/s, each for one desk"
    note = f"{len(lags):,} events, all heard"
    yield Line(f"{name}: p50 (ms)", statistics.median(lags) * 1000, most=100, note=note)
    yield Line(f"{name}: p99 (ms)", _p99(lags) * 1000, most=300)


def _lags(stage: Stage, desks: Sequence[str], effort: Effort) -> list[float]:
    """The lags of events at a steady rate, each for one of the desks."""
    count = RATE * effort.seconds * (10 if effort.whole else 2)
    began = time.monotonic()
    for number in range(count):
        time.sleep(max(0, began + number / RATE - time.monotonic()))
        stage.signal(desks[number * 7 % len(desks)])
    found = stage.endpoints.until_heard(count, 30)
    assert len(found["lags"]) == count, (len(found["lags"]), count)
    return sorted(found["lags"])


def _p99(lags: Sequence[float]) -> float:
    return lags[int(0.99 * len(lags))]


def _fan_outs(stage: Stage, many: int) -> Iterator[Line]:
    slowest = []
    with stage.subscribed("/now/", count=many):
        for _ in range(FAN_OUTS):
            stage.signal()
            found = stage.endpoints.until_heard(many, 60)
            assert len(found["lags"]) == many, len(found["lags"])
            slowest.append(max(found["lags"]))
    note = f"median of {FAN_OUTS}: {statistics.median(slowest):.3g} s"
    yield Line(f"one event for all {many:,}: the last (s)", max(slowest), most=4, note=note)


def _soon(stage: Stage, many: int) -> Iterator[Line]:
    """Ten events for everybody, and then the runner."""
    each = 10
    with stage.subscribed("/soon/", count=many, runner=False):
        for _ in range(each):
            stage.signal()
        with delivering(stage.server):
            found = stage.endpoints.until_heard(many * each, 240)
    times = sorted(found["times"])
    assert len(times) == many * each, len(times)
    rate = len(times) / (times[-1] - times[0])
    note = f"{len(times):,} deliveries in {times[-1] - times[0]:.1f} s"
    name = (
        f"one runner, endpoints that answer in 50 ms, {many:,} subscriptions: deliveries a second"
    )
    yield Line(name, rate, least=300, note=note)


def _hanging(
    stage: Stage, many: int, effort: Effort, *, of_fifty: int, each: int
) -> Iterator[Line]:
    """The endpoints of some of fifty desks hang. One runner, before and after they begin to."""
    accounts, hanging = many * of_fifty // 50, many * of_fifty // 50 * each
    paths = ["/now/"] * (50 - of_fifty) + ["/never/"] * of_fifty
    well = [desk for n, desk in enumerate(stage.desks[:many]) if paths[n % 50] == "/now/"]
    with stage.subscribed(*paths, count=many, hanging=each):
        for desk in well:  # connections are open from here on
            stage.signal(desk)
        stage.endpoints.until_heard(len(well), 60)
        alone = _lags(stage, well, effort)
        stage.signal()  # from here on they hang
        heard = len(stage.endpoints.until_heard(len(well), 60)["times"])
        assert heard == len(well), (heard, len(well))
        stage.until_only(hanging)
        lags = _lags(stage, well, effort)
        failed = stage.count(FAILED)
    every = len(well) + hanging
    name = f"{hanging} of {every:,} endpoints, of {accounts} accounts, hang: "
    name += "the others' p99 ÷ without"
    note = (
        f"{len(lags):,} events, all heard, in {_p99(lags) * 1000:.0f} ms; without: "
        f"{_p99(alone) * 1000:.0f} ms; {failed:,} attempts at those that hang were given up"
    )
    yield Line(name, _p99(lags) / _p99(alone), most=1.3, note=note)


def _behind(stage: Stage, effort: Effort) -> Iterator[Line]:
    """One subscription of the platform that is far behind; the first part of it is measured."""
    count = 100_000 if effort.whole else 2_000
    part = min(count, 5_000)
    with connect(stage.server) as database:
        for statement in GROW.format(count=count).split(";\n"):
            if statement.strip():
                database.execute(statement)  # type: ignore[call-overload]
    with stage.subscribed("/now/behind/", count=1, platform=True):
        found = stage.endpoints.until_heard(part, 120)
    times = found["times"]
    rate = len(times) / (times[-1] - times[0])
    name = f"one subscription, {count:,} events behind, endpoint answers at once: a second"
    yield Line(name, rate, least=150, note=f"over the first {len(times):,}")
    yield Line("of them, not in order", found["unordered"], most=0)


def _idle(stage: Stage, effort: Effort) -> Iterator[Line]:
    count = IDLE if effort.whole else 500
    with stage.subscribed("/now/", count=count), connect(stage.server) as database:
        time.sleep(IDLE_SECONDS)
        before = _transactions(database)
        time.sleep(IDLE_SECONDS)
        found = (_transactions(database) - before - 2) / IDLE_SECONDS
    name = f"statements a second of an idle runner with {count:,} subscriptions"
    yield Line(name, found, most=30, note="transactions of one statement each")


def _transactions(database: Any) -> int:
    time.sleep(1.1)  # PostgreSQL writes its counters once a second
    return int(database.execute(TRANSACTIONS).fetchone()[0])


def _beside(stage: Stage, many: int, effort: Effort) -> Iterator[Line]:
    """Signed pushes beside twenty events a second, with and without a runner that delivers them."""
    push = load.push(stage.server)
    ratios, delivered = [], 0
    for _ in range(effort.rounds):
        with stage.subscribed("/now/", count=many, runner=False):
            others = stage.without_the_desk_of_pushes(many)
            with _steadily(stage, others) as sent:
                without = push.measure(LONGER * effort.seconds)
            with delivering(stage.server):
                stage.endpoints.until_heard(len(sent), 60)  # the runner has begun and caught up
                with _steadily(stage, others) as sent:
                    beside = push.measure(LONGER * effort.seconds)
                heard = len(stage.endpoints.until_heard(len(sent), 60)["times"])
                assert heard == len(sent), (heard, len(sent))
                delivered += heard
        ratios.append(beside.rate / without.rate)
    name = f"pushes beside {RATE} deliveries/s ÷ without"
    rates = f"last round: {beside.rate:,.0f} a second, without: {without.rate:,.0f}"
    note = f"{delivered:,} delivered; {rates}"
    yield Line(name, statistics.median(ratios), least=0.85, note=note)


@contextmanager
def _steadily(stage: Stage, desks: Sequence[str]) -> Iterator[list[str]]:
    """Events for one desk each, at a steady rate, in a thread. Yields the desks of those sent."""
    over = threading.Event()
    sent: list[str] = []

    def send() -> None:
        while not over.wait(1 / RATE):
            desk = desks[len(sent) * 7 % len(desks)]
            stage.signal(desk)
            sent.append(desk)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield sent
    finally:
        over.set()
        thread.join()

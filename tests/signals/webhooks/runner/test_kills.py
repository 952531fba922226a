"""Runners are killed, stalled, cut off and restarted while they deliver: nothing is lost.

Two runners are at work, and endpoints of every kind: quick, slow, failing now and then, hanging
up. After the faults an oracle compares what each endpoint heard with what its view of the log
shows. ``DELIVERY_KILLS`` sets how many runners are killed, if more than ten; other faults come
between.
"""

import os
import random
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from contextlib import ExitStack, suppress
from datetime import timedelta
from ipaddress import ip_network

import pytest
from django.db import DatabaseError, OperationalError, connection
from django.db.models import Max, Q
from django.db.models.functions import Now

from desks import actions as desk_actions
from events.actors import SYSTEM
from events.feed import read_head
from signals.webhooks.models import Subscription
from signals.webhooks.runner.delivery import LEASE
from tests.factories import a_bot, a_card, a_ready_desk
from tests.signals.outbound.listeners import endpoint, reply
from tests.signals.webhooks.runner.oracle import first_heard, must_hear
from tests.signals.webhooks.runner.stage import RunnerProcess, subscribe, until
from tokens import actions as tokens

KILLS = int(os.environ.get("DELIVERY_KILLS", "1"))
IS_WHOLE = KILLS > 10
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.processes,
    pytest.mark.timeout(600 + 40 * KILLS),
]

DESKS = 6 if IS_WHOLE else 3
RUNNERS = 2 if os.environ.get("TEST_DATABASE_URL", "").startswith("postgres") else 1
STARTING = 120.0  # seconds in which new runners deliver, on a machine that does much else
# A runner whose wall clock is an hour ahead.
AHEAD = """
import datetime, sys, time
real = time.time
time.time = lambda: real() + 3600
from django.utils import timezone
now = timezone.now
timezone.now = lambda: now() + datetime.timedelta(hours=1)
from django.core.management import execute_from_command_line
execute_from_command_line(["manage.py", "deliver"])
"""


def slow(handler, request):
    time.sleep(0.05)
    reply(200, b"ok")(handler, request)


def flaky(handler, request):
    status = random.choice([500, 503, 302]) if random.random() < 0.06 else 204
    reply(status)(handler, request)


def hanging_up(handler, request):
    if random.random() < 0.05:
        handler.close_connection = True  # the request was read: it may count as heard
        return
    reply()(handler, request)


class Stage:
    def __init__(self, folder):
        self.folder, self.started = folder, 0
        self.running = []

    def start(self, *command):
        self.started += 1
        log = self.folder / f"{self.started}.log"
        # With its own limits: PostgreSQL ends the transaction of one that stands still.
        self.running.append(RunnerProcess(log, command, PATIENCE=""))

    def kill(self):
        self.running.pop(random.randrange(len(self.running))).kill()
        self.start()

    def restart(self):
        runner = self.running.pop(0)
        assert runner.stop() in {0, -signal.SIGTERM}  # it may not have begun yet
        self.start()

    def clock_is_moved(self):
        self.running.pop(0).kill()
        self.start(sys.executable, "-c", AHEAD)

    def cut(self):
        """Every connection of the runners to the database is ended."""
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )

    def stall(self):
        """A runner stands still for longer than its leases, and goes on as if nothing had been."""
        runner = self.running[0]
        runner.send(signal.SIGSTOP)
        if IS_WHOLE:
            time.sleep(LEASE.total_seconds() + 2)
        else:
            leases_end()
            time.sleep(1)
        runner.send(signal.SIGCONT)


def faults(stage):
    """What happens to the runners, one after the other."""
    if connection.vendor == "sqlite":  # one that stands still may have the lock of the database
        return [stage.kill, stage.restart]
    if not IS_WHOLE:
        return [stage.kill, stage.cut, stage.stall, stage.restart]
    others = [stage.restart, stage.cut, stage.stall, stage.clock_is_moved]
    return [
        fault
        for number in range(KILLS)
        for fault in [stage.kill, *others[number % 4 :][: number < 4 or number % 10 == 9]]
    ]


def leases_end():
    """As if the time of every lease had passed: those of killed runners are free."""
    past = Now() - timedelta(seconds=1)
    _each(Q(leased_until__isnull=False), leased_until=past, next_attempt_at=past)


def are_behind():
    """Whether much was written of which no runner delivers anything, as while new ones start."""
    newest = Subscription.objects.aggregate(newest=Max("cursor_position"))["newest"]
    return read_head().position > newest + 30


def retries_are_due():
    _each(Q(failures__gt=0, leased_until=None, next_attempt_at__gt=Now()), next_attempt_at=Now())


def _each(condition, **values):
    """Row by row: an update of many would wait for a runner's, which waits for it."""
    for pk in Subscription.objects.filter(condition).values_list("pk", flat=True):
        until(lambda pk=pk: _changed(Subscription.objects.filter(condition, pk=pk), values))


def _changed(rows, values):
    """False if a runner that stands still or was killed still has the lock of the row."""
    try:
        rows.update(**values)
    except OperationalError:
        connection.close()
        return False
    return True


def test_nothing_is_lost_or_signed_wrongly_and_first_deliveries_are_in_order(tmp_path, settings):
    settings.DELIVERY_ALLOW = [ip_network("127.0.0.0/8")]
    card = a_card()
    desks = [a_ready_desk(card) for _ in range(DESKS)]
    stage = Stage(tmp_path)
    with ExitStack() as stack:
        heard = [stack.enter_context(endpoint(one)) for one in (reply(), slow, flaky, hanging_up)]
        subscribed = [
            (found, *subscribe(found.url(f"/{number}"), desk), number)
            for number, (desk, found) in enumerate(
                (desk, found) for desk in [*desks, None] for found in heard
            )
        ]
        starts = {row.pk: row.cursor_position for _, _, row, _ in subscribed}
        stack.callback(lambda: [runner.kill() for runner in stage.running])
        for _ in range(RUNNERS):
            stage.start()
        is_over = threading.Event()

        def total():
            return sum(len(found.requests) for found in heard)

        def write():
            while not is_over.wait(0.1):
                with suppress(DatabaseError):  # its connection is cut too
                    if are_behind():
                        continue
                    desk = random.choice(desks)
                    bot = a_bot(desk).automation
                    tokens.remove_automation(automation=bot, actor=SYSTEM)
                    retries_are_due()
                    if random.random() < 0.1:
                        desk_actions.withdraw(desk=desk, actor=SYSTEM)
                        desk_actions.enrol(desk=desk, card_id=card.pk, actor=SYSTEM)
                    continue
                connection.close()
            connection.close()

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for fault in faults(stage):
                before = total()
                until(lambda before=before: total() > before + 10, STARTING)
                time.sleep(random.uniform(0, 0.5))
                fault()
                leases_end()
        finally:
            is_over.set()
            writer.join()

        def requests_to(number, found):
            return [one for one in list(found.requests) if one.path == f"/{number}"]

        # Runners go on to tell the log of webhooks that fail for long, and that work again.
        head = read_head().position
        expected = {
            row.pk: [position for position in must_hear(row, starts[row.pk]) if position <= head]
            for _, _, row, _ in subscribed
        }
        came, read = defaultdict(set), Counter()

        def hear():
            """Notes what came since the last call, by the path of the subscription."""
            for found in heard:
                for one in found.requests[read[found.port] :]:
                    position = int(one.headers["webhook-id"].split("_")[1])
                    if position <= head:
                        came[one.path].add(position)
                    read[found.port] += 1

        def missing():
            retries_are_due()
            hear()
            left = {
                number: len(expected[row.pk]) - len(came[f"/{number}"])
                for _, _, row, number in subscribed
            }
            return {number: count for number, count in left.items() if count > 0}

        leases_end()
        while left := missing():  # a slow machine has much to make up for
            until(lambda left=left: missing() != left, STARTING, pause=0.25)
        for runner in stage.running:
            assert runner.is_running
        for found, secret, row, number in subscribed:
            first = first_heard(requests_to(number, found), [secret])
            assert [position for position in first if position <= head] == expected[row.pk]

"""How fast messages go to one host and for one desk: real runners, endpoints and histories."""

import asyncio
from collections import Counter
from contextlib import ExitStack
from datetime import timedelta
from ipaddress import ip_network
from typing import Any

import pytest
import time_machine
from django.db import connection  # noqa: F401 - for skipif
from django.utils import timezone

from events.actors import SYSTEM
from events.http.cursors import log_cursor
from events.models import Head
from signals.outbound.schedule import Rate
from signals.webhooks import actions
from signals.webhooks.models import DeliveryAttempt
from signals.webhooks.runner.rates import NAME_PREFIX, Rates, forget_old, rate_names, take
from tests.factories import a_card, a_ready_desk
from tests.notices import elsewhere
from tests.signals.outbound.listeners import LOOPBACK, OTHER_LOOPBACK, endpoint
from tests.signals.webhooks.runner.oracle import must_hear
from tests.signals.webhooks.runner.stage import (
    close_connections,
    current,
    locked,
    runners,
    running,
    subscribe,
    until,
)
from tests.signals.webhooks.stage import add_bots

OFF = "off"
HISTORY = 30  # events of each desk


@pytest.fixture
def heard(settings):
    """Makes endpoints that listen until the end of the test."""
    settings.DELIVERY_ALLOW = [ip_network("127.0.0.0/8")]
    with ExitStack() as stack:
        yield lambda address=LOOPBACK: stack.enter_context(endpoint(address=address))


def a_desk_with_a_history():
    desk = a_ready_desk(a_card())
    add_bots(desk, HISTORY)
    return desk


def replay(found, desk, host=LOOPBACK):
    """A webhook of the desk that has its whole history to send."""
    _, row = subscribe(found.url(host=host), desk)
    actions.rewind(webhook=row, after=log_cursor(row.cursor_epoch, 0), actor=SYSTEM)
    return row


def attempts(rows):
    return DeliveryAttempt.objects.filter(subscription__in=rows)


def seconds(began, rows):
    """The time from then to the last message of these webhooks, by the runners' clock.

    The first message may leave later than it might: a busy machine lets a runner stand still.
    """
    return (max(attempts(rows).values_list("at", flat=True)) - began).total_seconds()


def have_saved(count, rows):
    """A session saves what it sent when it ends."""
    return lambda: attempts(rows).count() >= count


def have(count, *founds):
    return lambda: sum(len(found.requests) for found in founds) >= count


@pytest.mark.django_db(transaction=True)
@pytest.mark.slow
class TestRunners:
    @pytest.mark.processes
    def test_a_host_gets_no_more_from_several_desks_ports_and_runners(self, tmp_path, heard):
        ports, desks = (heard(), heard()), [a_desk_with_a_history() for _ in range(2)]
        platform = heard()
        subscribe(platform.url())
        rates: Any = {"DELIVERY_HOST_RATE": "20/second", "DELIVERY_DESK_RATE": OFF}
        with runners(tmp_path, 2, **rates):
            add_bots(desks[0])
            until(have(1, platform))  # a runner is up
            began = timezone.now()
            rows = [replay(found, desk) for found, desk in zip(ports, desks, strict=True)]
            until(have_saved(60, rows))
        # What a second saves up comes at once; the rest at the rate.
        assert seconds(began, rows) >= (60 - 20) / 20 - 0.2

    def test_a_desk_sends_no_more_to_several_hosts_and_by_several_runners(self, settings, heard):
        hosts = heard(), heard(OTHER_LOOPBACK)
        desk = a_desk_with_a_history()
        rows = [
            replay(found, desk, host)
            for found, host in zip(hosts, (LOOPBACK, OTHER_LOOPBACK), strict=True)
        ]
        settings.DELIVERY_DESK_RATE, settings.DELIVERY_HOST_RATE = "20/second", OFF
        began = timezone.now()
        with running(2):
            until(have_saved(60, rows))
        assert seconds(began, rows) >= (60 - 20) / 20 - 0.2

    def test_a_desk_with_many_webhooks_does_not_starve_another_at_the_same_host(self, settings):
        # So slow that after a pause fewer are granted at once than wait.
        settings.DELIVERY_HOST_RATE, settings.DELIVERY_DESK_RATE = "2/second", OFF
        greedy, modest = 1, 2
        sent = Counter[int]()

        async def session(rates, desk_id):
            while sent[modest] < 5:
                is_granted = await rates.wait("hooks.example", desk_id)
                sent[desk_id] += is_granted

        async def everybody():
            rates = Rates()
            await asyncio.gather(*(session(rates, desk) for desk in [*[greedy] * 4, modest]))
            await close_connections()

        asyncio.run(everybody())
        # One each in turn, and not one for each webhook, which would be four times as many. Before
        # the turns begin, a second's go to whoever asks first.
        assert sent[greedy] < 3 * sent[modest]

    def test_the_platforms_are_not_counted_and_off_is_off(self, settings, heard):
        found = heard()
        desk = a_desk_with_a_history()
        replay(found, None)
        settings.DELIVERY_HOST_RATE = settings.DELIVERY_DESK_RATE = "1/hour"
        with running():
            until(have(HISTORY, found))
        assert not Rate.objects.filter(name__startswith=NAME_PREFIX).exists()
        free = heard()
        replay(free, desk)
        settings.DELIVERY_HOST_RATE = settings.DELIVERY_DESK_RATE = OFF
        with running():
            until(have(HISTORY, free))
        assert not Rate.objects.filter(name__startswith=NAME_PREFIX).exists()

    def test_one_that_waits_in_vain_goes_on_later_and_holds_up_nobody_elsewhere(
        self, settings, heard
    ):
        """Its desk's rate is used up for an hour. It has not failed, and loses nothing."""
        slow, other = heard(), heard(OTHER_LOOPBACK)
        rows = [replay(slow, a_desk_with_a_history()) for _ in range(2)]
        neighbour = a_desk_with_a_history()
        settings.DELIVERY_HOST_RATE, settings.DELIVERY_DESK_RATE = "1/hour", OFF
        with running():
            until(have(1, slow))
            replay(other, neighbour, OTHER_LOOPBACK)
            until(have(1, other))
            for row in rows:
                until(lambda row=row: not current(row).leased_until)
                assert (row.failures, row.state, row.test_requested_at) == (0, "active", None)
        settings.DELIVERY_HOST_RATE = settings.DELIVERY_DESK_RATE = OFF
        with running():
            for row in rows:
                until(lambda row=row: current(row).cursor_position >= Head.objects.get().position)
        assert len(slow.requests) == sum(len(must_hear(row, 0)) for row in rows)


@pytest.mark.django_db(transaction=True)
class TestTake:
    def test_a_desk_gets_what_its_rate_allows_and_the_next_one_its_own(self, settings):
        settings.DELIVERY_HOST_RATE, settings.DELIVERY_DESK_RATE = OFF, "1/hour"
        first, second = rate_names("a.example", 1), rate_names("b.example", 2)
        assert take([first, first, second]) == ([first, second], {first.desk})
        assert take([first, second]) == ([], {first.desk, second.desk})

    def test_a_host_gets_what_its_rate_allows_from_all_desks(self, settings):
        settings.DELIVERY_HOST_RATE, settings.DELIVERY_DESK_RATE = "1/hour", "1/hour"
        first, second, third = (rate_names(*one) for one in (("a.x", 1), ("a.x", 2), ("b.x", 2)))
        assert first.host == second.host != third.host
        # What its host refuses does not count for a desk.
        assert take([first, second, third]) == ([first, third], {first.host})

    def test_a_rate_that_is_off_has_no_row(self, settings):
        settings.DELIVERY_HOST_RATE, settings.DELIVERY_DESK_RATE = OFF, "1/hour"
        ask = rate_names("a.example", 1)
        take([ask])
        assert Rate.objects.get(name__startswith=NAME_PREFIX).name == ask.desk

    def test_old_ones_are_forgotten_and_none_that_still_says_something(self, settings):
        settings.DELIVERY_HOST_RATE = settings.DELIVERY_DESK_RATE = "1/minute"
        take([rate_names("a.example", 1)])
        names = set(
            Rate.objects.filter(name__startswith=NAME_PREFIX).values_list("name", flat=True)
        )
        other = Rate.objects.create(name="another", used_until=timezone.now() - timedelta(days=9))
        forget_old()
        assert Rate.objects.filter(name__in=names).count() == len(names) == 2
        Rate.objects.filter(name__in=names).update(used_until=timezone.now() - timedelta(hours=2))
        forget_old()
        assert list(Rate.objects.filter(used_until__isnull=False)) == [other]

    def test_a_process_whose_clock_is_ahead_forgets_none_that_is_in_use(self, settings):
        settings.DELIVERY_HOST_RATE, settings.DELIVERY_DESK_RATE = OFF, "1/minute"
        take([rate_names("a.example", 1)])
        with time_machine.travel(timezone.now() + timedelta(hours=3)):
            forget_old()
        assert Rate.objects.filter(name__startswith=NAME_PREFIX).count() == 1

    @pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has one writer")
    def test_forgetting_waits_for_no_row_in_use(self, settings):
        """Whoever uses it may wait for another that is about to be deleted."""
        settings.DELIVERY_HOST_RATE, settings.DELIVERY_DESK_RATE = OFF, "1/minute"
        in_use, unused = rate_names("a.example", 1).desk, rate_names("a.example", 2).desk
        old = timezone.now() - timedelta(hours=2)
        Rate.objects.bulk_create([Rate(name=name, used_until=old) for name in (in_use, unused)])
        with elsewhere(locked(Rate.objects.filter(name=in_use))):
            forget_old()
        assert Rate.objects.get(name__startswith=NAME_PREFIX).name == in_use

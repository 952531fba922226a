"""Fixtures for every test."""

import functools
import gc
import inspect
import os
import re
from collections.abc import Generator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpcore2
import httpx2
import pytest
import time_machine
from django.conf import settings
from django.core.cache import cache
from django.test import Client
from django.test.signals import template_rendered
from django.utils import timezone
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis

from desks.models import Card, Desk, User
from events import confirmation, log, losses
from events.http import rate_limits
from events.live import hub
from events.live.waiting_readers import slots
from events.models import Event, Head
from tests import distribution, factories, prepared, staff
from tests.client import signed_in
from tokens.callers import credential_cache

# Each client of httpx2 makes a TLS context, which reads the system's authorities: 30 ms of CPU, for
# a request of 1 ms. All clients of a process share one.
httpcore2.default_ssl_context = functools.cache(httpcore2.default_ssl_context)

# What a request of httpx2 may take if a test says nothing else. By default it is five seconds.
patience = inspect.signature(httpx2.get).parameters["timeout"].default
patience.connect = patience.read = patience.write = patience.pool = 60

# A slow machine fails no test.
hypothesis.register_profile(
    "any speed", hypothesis.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis.load_profile("any speed")


def pytest_configure() -> None:
    """Make the run's folder before the workers start, so that all of them have it."""
    prepared.folder()
    os.environ["PATIENCE"] = "on"  # of the servers that tests start: tests.served_settings


# The marks of a whole file, and a run that leaves some marks out.
MARKS_OF_FILE = re.compile(r"^pytestmark = (\[\n.*?^\]|.*?$)", re.MULTILINE | re.DOTALL)
LEFT_OUT = re.compile(r"not \(?(\w+(?: or \w+)*)\)?")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file of which the run leaves out every test."""
    asked = LEFT_OUT.fullmatch(config.option.markexpr)
    if not asked or not collection_path.name.startswith("test_"):
        return None
    marks = MARKS_OF_FILE.search(collection_path.read_text())
    of_file = set(re.findall(r"pytest\.mark\.(\w+)", marks[0])) if marks else set()
    if f"{collection_path.relative_to(config.rootpath)}".startswith(distribution.PAGES):
        of_file.add("pages")
    return True if of_file & {*asked[1].split(" or ")} else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, which would look at every module again and again.

    What is loaded then stays for the whole run, so that no later collection looks at it.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def empty_cache() -> None:
    """Empty the cache before each test."""
    cache.clear()


@pytest.fixture(autouse=True)
def no_cached_credentials() -> None:
    """Drop the credentials that this process cached: a test's rows are rolled back."""
    credential_cache.tokens._rows.clear()
    credential_cache.secrets._rows.clear()


@pytest.fixture(autouse=True)
def no_doubt() -> None:
    """Forget that a test waited in vain: the process would ask the database once more."""
    confirmation.doubted.clear()


@pytest.fixture(autouse=True)
def nothing_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the last event: the next test has another log."""
    monkeypatch.setattr(losses, "memory", losses.Memory())


@pytest.fixture(autouse=True)
def no_slot_left_taken() -> Iterator[None]:
    """Fail the test that does not end its streams: a test after it would miss their slots."""
    yield
    taken = dict(slots._taken)
    slots._taken.clear()
    assert not taken, "The test did not end its streams: use client.end_stream."


@pytest.fixture(autouse=True)
def reset_limits() -> None:
    """Reset every rate limit and allowance: ids repeat after a test's rows are rolled back."""
    rate_limits.retry_times.clear()
    rate_limits.store(rate_limits.IN_MEMORY).reset()
    if settings.LIMITS_URL:
        rate_limits.store(settings.LIMITS_URL).reset()


@pytest.fixture(autouse=True)
def no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the hub close its connection as soon as nobody reads: the test database goes away."""
    monkeypatch.setattr(hub, "REST", 0)


@pytest.fixture(autouse=True)
def no_template_under_the_lock() -> Iterator[None]:
    """Fail whatever renders a template inside a turn at the log: every writer waits meanwhile."""

    def refuse(template: Any, **_: object) -> None:
        rendered = f"{template.name or 'A template'} is rendered under the log's lock."
        assert getattr(log._thread, "turn", None) is None, rendered

    template_rendered.connect(refuse)
    yield
    template_rendered.disconnect(refuse)


@pytest.fixture
def contiguous(db: None) -> Iterator[None]:
    """Checks after the test that the positions of the log have no gap."""
    yield
    positions = list(Event.objects.values_list("position", flat=True))
    assert positions == list(range(1, Head.objects.get().position + 1))


@pytest.fixture
def noon() -> Iterator[None]:
    """Lets the test begin at noon, so that it ends on that day.

    Of the next day, because the log's time never runs back.
    """
    with time_machine.travel(timezone.now().replace(hour=12) + timedelta(days=1)):
        yield


@pytest.fixture
def card(db: None) -> Card:
    """The published card."""
    return factories.a_card()


@pytest.fixture
def desk(card: Card) -> Desk:
    """A ready desk."""
    return factories.a_ready_desk(card)


@pytest.fixture
def stranger(card: Card) -> Desk:
    """Another user's ready desk."""
    return factories.a_ready_desk(card)


@pytest.fixture
def bot(desk: Desk) -> factories.Bot:
    """An automation of the desk, with an election and a signing secret."""
    return factories.a_bot(desk)


@pytest.fixture
def engine(card: Card) -> str:
    """A platform token with the scopes ``read`` and ``write``."""
    return factories.a_platform_token()


@pytest.fixture
def owner(desk: Desk) -> Client:
    """A browser in which the desk's owner is signed in."""
    return signed_in(desk.user)


@pytest.fixture
def member(desk: Desk) -> User:
    """The desk's owner, with a verified e-mail address."""
    return staff.verified(desk.user)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests of pages."""
    if item.nodeid.startswith(distribution.PAGES):
        item.add_marker("pages")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let files that share servers run in one worker: --dist loadfile."""
    is_by_file = config.getoption("dist") == "loadfile"
    return distribution.Distribution(config, log) if is_by_file else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the slowest first, so that no worker ends with them: servers, slow files."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    units = [*distribution.TOGETHER, ""]
    items.sort(
        key=lambda item: (
            next(place for place, unit in enumerate(units) if item.nodeid.startswith(unit)),
            not item.get_closest_marker("processes"),
            item.path not in slow,
        )
    )


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name each skipped test and the reason."""
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        terminalreporter.write_line(f"NOT RUN {report.nodeid}: {reason}")

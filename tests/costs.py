"""Prints the processor time of a run by folder, fixture and test: ``pytest -p tests.costs``.

It counts this process and the processes that it waited for. So a server counts in the test with
which it ends, and PostgreSQL and Redis do not count. A fixture counts without those that it asks
for. It counts one process: run it without ``-n``.
"""

import os
from collections import defaultdict
from collections.abc import Generator
from operator import itemgetter
from typing import Any

import pytest

MOST = 60  # lines of a table

by_folder: dict[str, float] = defaultdict(float)
by_fixture: dict[str, float] = defaultdict(float)
by_test: dict[str, float] = defaultdict(float)
inner = [0.0]  # what the fixtures took that each open one asked for


def spent() -> float:
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any) -> Generator[None, object, object]:
    start = spent()
    inner.append(0.0)
    try:
        return (yield)
    finally:
        took, others = spent() - start, inner.pop()
        inner[-1] += took
        by_fixture[f"{fixturedef.baseid}::{fixturedef.argname}"] += took - others


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    start = spent()
    try:
        return (yield)
    finally:
        took = spent() - start
        by_test[item.nodeid] += took
        by_folder[str(item.path.parent.relative_to(item.config.rootpath))] += took


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for name, table in {"folder": by_folder, "fixture": by_fixture, "test": by_test}.items():
        terminalreporter.section(f"seconds of processor time by {name}: {sum(table.values()):.0f}")
        for what, seconds in sorted(table.items(), key=itemgetter(1), reverse=True)[:MOST]:
            terminalreporter.write_line(f"{seconds:8.2f}  {what}")

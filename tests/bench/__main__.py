"""Measures the service against baselines of the same run: ``make bench``, or with ``QUICK=1``.

    TEST_DATABASE_URL=postgres://… TEST_REDIS_URL=redis://… python -m tests.bench [--quick]
    … python -m tests.bench --only live

Prints a table, a model of other machines and JSON. The full run takes 20 minutes, writes them and
a chart to deploy/performance/, and fails if a goal is not met. The quick run takes about a minute.
It has one short round without warm-up on a small database, so it shows only that the benchmark runs
and that every answer is correct. With --only it measures some lines alone and writes nothing.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from tests.bench import batches, cpu, delivery, growth, live, model, reads, report, signals
from tests.bench.line import QUICK, Effort, Line, bare_view
from tests.bench.load import MANY
from tests.bench.model import Parts
from tests.server import ROOT, Server, serving

FOLDER = ROOT / "deploy" / "performance"
# The lines that can be measured alone.
ALONE = {"delivery": delivery.lines, "live": live.lines}
FIGURES = "<!-- From here on make bench writes. -->"


def lines(effort: Effort) -> Iterator[Line | Parts]:
    """The lines of the table, each as soon as it is measured, and the parts of the model."""
    with ExitStack() as servers:
        small = servers.enter_context(serving(ready=effort.ready))
        yield from signals.pushes(small, effort)
        yield from signals.statements(small)
        yield from batches.under_load(small, effort)
        yield from _parts(small, effort)
        with tempfile.TemporaryDirectory() as folder:
            yield from signals.embedded(effort, folder)
        if effort.whole:
            yield from signals.limits(small, effort)
        ten = servers.enter_context(serving(ready=10)) if effort.whole else small
        grown = servers.enter_context(serving(ready=10))
        growth.grow(grown, effort.desks, effort.events)
        yield from signals.fan_outs(ten, grown, effort)
        yield from reads.pulls(grown, effort)
        yield from reads.feeds(grown, effort)
        if effort.whole:
            yield from reads.grown_to_small(small, grown, effort)
    yield from live.lines(effort)
    yield from delivery.lines(effort)


def _parts(server: Server, effort: Effort) -> Iterator[Line | Parts]:
    """What a deploy is made of: CPU, the lock, the commit."""
    commit = signals.commit_seconds(server, effort)
    yield Line("a commit of one row, by a single writer (ms)", commit * 1000)
    with bare_view(server) as beside:
        used = cpu.costs(server, beside, effort)
    yield from cpu.lines(used)
    found = batches.receive(server, effort)
    yield from batches.lock(found)
    yield batches.statements(found, most=7)
    turn, signal = model.fit(list(found.medians().items()))
    parts = Parts(used.gunicorn, used.application, used.database, turn - commit, signal, commit)
    processes = int(server.environment["WEB_CONCURRENCY"])
    expected = model.on_this_machine(parts, processes, used.generator)
    yield Line(
        f"the model's deploys a second ÷ found, at {MANY} connections on this machine",
        expected.rate / used.rate,
        note=f"{expected}; found {used.rate:,.0f}/s",
    )
    yield parts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="about a minute")
    parser.add_argument("--only", choices=ALONE, help="only these lines")
    asked = parser.parse_args()
    effort = QUICK if asked.quick else Effort()
    address = os.environ.get("TEST_DATABASE_URL", "")
    if not address.startswith("postgres"):
        sys.exit("TEST_DATABASE_URL names no PostgreSQL: the benchmark makes its databases there.")
    if shutil.which("wrk") is None:
        sys.exit("wrk is missing; on Debian: apt install wrk")
    stood_on = report.machine(address.replace("postgres://", "postgresql://", 1))
    measured: list[Line] = []
    parts: Parts | None = None
    for found in ALONE[asked.only](effort) if asked.only else lines(effort):
        if isinstance(found, Parts):
            parts = found
            continue
        measured.append(found)
        text = f"{found.name}: {report.number(found.value)}  {report.goal(found)}  {found.note}"
        print(text, file=sys.stderr, flush=True)
    if asked.only:
        print(report.table(measured))
        return int(any(line.met is False for line in measured))
    assert parts
    result = {
        **stood_on,
        "lines": [asdict(line) for line in measured],
        "model": asdict(parts),
    }
    as_json, modelled = json.dumps(result, indent=2), model.page(parts)
    print(report.table(measured), modelled, as_json, sep="\n\n")
    if not effort.whole:
        return 0
    _keep(measured, stood_on, modelled, as_json)
    return int(any(line.met is False for line in measured))


def _keep(measured: list[Line], stood_on: dict[str, str], modelled: str, as_json: str) -> None:
    """Writes the figures below the text of the page."""
    under = ", ".join(stood_on.values())
    by_hand = Path(FOLDER, "README.md").read_text().partition(FIGURES)[0]
    table = report.table(measured)
    figures = f"{FIGURES}\n\n{under}.\n\n![](chart.svg)\n\n{table}\n\n{modelled}\n"
    Path(FOLDER, "README.md").write_text(by_hand + figures)
    Path(FOLDER, "result.json").write_text(as_json + "\n")
    Path(FOLDER, "chart.svg").write_text(report.chart(measured, under))


if __name__ == "__main__":
    sys.exit(main())

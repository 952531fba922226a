"""The table, the JSON and the chart of a run."""

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version

import psycopg

from tests.bench.line import Line

ROW, TEXT_WIDTH, BAR_WIDTH, NUMBER_WIDTH = 26, 560, 300, 180  # pixels
INK, PALE, MET, NOT_MET = "#1c2430", "#5b6675", "#2f7d5b", "#b4472e"
FURTHEST = 3.0  # the longest bar: a goal that is exceeded this many times


def machine(address: str) -> dict[str, str]:
    """The machine and the versions of the run."""
    with psycopg.connect(address) as connection:
        postgresql = str(connection.info.server_version // 10000)
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{len(os.sched_getaffinity(0))} cores, {_processor()}, {platform.system()}",
        "versions": f"Python {platform.python_version()}, Django {version('django')}, "
        f"gunicorn {version('gunicorn')}, psycopg {version('psycopg')}, PostgreSQL {postgresql}",
    }


def _processor() -> str:
    with open("/proc/cpuinfo") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


def goal(line: Line) -> str:
    if line.least is not None:
        return f"at least {number(line.least)}"
    return "" if line.most is None else f"at most {number(line.most)}"


def number(value: float) -> str:
    """Three significant digits, or a whole number."""
    if value == int(value):
        return f"{int(value)}"
    return f"{value:.1f}" if value >= 100 else f"{value:.3g}" if value >= 0.001 else f"{value:.5f}"


def table(lines: Sequence[Line]) -> str:
    """The table in Markdown."""
    rows = ["| line | goal | found | | |", "| --- | --- | --- | --- | --- |"]
    for line in lines:
        met = {None: "", True: "met", False: "**not met**"}[line.met]
        rows.append(f"| {line.name} | {goal(line)} | {number(line.value)} | {met} | {line.note} |")
    return "\n".join(rows)


def chart(lines: Sequence[Line], under: str) -> str:
    """A chart of the goals: a bar that passes the line meets its goal."""
    drawn = [line for line in lines if line.met is not None]
    height = ROW * (len(drawn) + 3)
    width = TEXT_WIDTH + BAR_WIDTH + NUMBER_WIDTH
    at_goal = TEXT_WIDTH + BAR_WIDTH / FURTHEST
    rows = [_row(line, ROW * index + 2 * ROW) for index, line in enumerate(drawn)]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="system-ui, sans-serif" font-size="13" fill="{INK}">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        *(bar for bar, _ in rows),
        f'<text x="{at_goal}" y="18" text-anchor="middle">goal</text>',
        f'<line x1="{at_goal}" x2="{at_goal}" y1="24" y2="{height - 1.5 * ROW}" stroke="{INK}" '
        'stroke-dasharray="3 3"/>',
        *(text for _, text in rows),
        f'<text x="8" y="{height - 8}" fill="{PALE}" font-size="11">{escape(under)}</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _row(line: Line, middle: int) -> tuple[str, str]:
    """A line's bar and its text, which is drawn above the mark of the goal."""
    length = BAR_WIDTH * min(_exceeded(line), FURTHEST) / FURTHEST
    bar = (
        f'<rect x="{TEXT_WIDTH}" y="{middle - 8}" width="{length:.1f}" height="16" rx="2" '
        f'fill="{MET if line.met else NOT_MET}"/>'
    )
    text = (
        f'<text x="{TEXT_WIDTH - 12}" y="{middle + 4}" text-anchor="end">{escape(line.name)}</text>'
        f'<text x="{TEXT_WIDTH + length + 8:.1f}" y="{middle + 4}" stroke="#fff" stroke-width="5" '
        f'paint-order="stroke">{number(line.value)} '
        f'<tspan fill="{PALE}">{goal(line)}</tspan></text>'
    )
    return bar, text


def _exceeded(line: Line) -> float:
    """How many times better than its goal a line is."""
    if line.least is not None:
        return line.value / line.least
    assert line.most is not None
    return line.most / line.value if line.value else FURTHEST

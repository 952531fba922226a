"""The tables of SECURITY.md that drills write."""

import os
import platform
from collections.abc import Mapping, Sequence

from tests.server import ROOT

DOCUMENT = ROOT / "SECURITY.md"
END = "<!-- up to here -->\n"


def write(begin: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Prints rows, each by the titles of its columns, and writes them behind the line ``begin``."""
    lines = [list(rows[0]), ["---"] * len(rows[0])]
    lines += [[_written(value) for value in row.values()] for row in rows]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[2]
    where = f"Python {platform.python_version()} on {cores} cores, a load of {load:.1f} among them"
    text = f"{table}\nLast run with {where}.\n"
    print(text)
    before, rest = DOCUMENT.read_text().split(begin)
    DOCUMENT.write_text(f"{before}{begin}\n{text}\n{END}{rest.partition(END)[2]}")


def _written(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)

"""The sizing page says what the model computes from the last full run."""

import json
import re

import pytest

from tests.bench.model import COMMITS, Machine, Parts, forecast
from tests.server import ROOT

pytestmark = pytest.mark.once

FOLDER = ROOT / "deploy" / "performance"
ROW = re.compile(r"^\| (\d+) \| (\d+) \| (.+) \| (.+) \| (.+) \|$", re.M)


def test_its_signals_a_second_are_those_of_the_model():
    parts = Parts(**json.loads((FOLDER / "result.json").read_text())["model"])
    rows = ROW.findall((FOLDER / "SIZING.md").read_text())
    assert [int(cores) for cores, *_ in rows] == [2, 8, 8, 32]
    for cores, processes, *said in rows:
        commits = (parts.commit, *COMMITS)
        found = [forecast(parts, Machine(int(cores), int(processes), one)) for one in commits]
        assert said == [f"{one.rate:,.0f}, {one.bound_by}" for one in found]

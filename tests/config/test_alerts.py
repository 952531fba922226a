"""The rules of deploy/alerts.yaml: each is tried, and each is explained."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from config.environment import ROOT

pytestmark = pytest.mark.once

RULES = yaml.safe_load((ROOT / "deploy" / "alerts.yaml").read_text())
ALERTS = [rule["alert"] for group in RULES["groups"] for rule in group["rules"]]
CASES = Path(__file__).with_name("alerts.test.yaml")


@pytest.mark.skipif(not shutil.which("promtool"), reason="not run for lack of promtool")
def test_each_alert_fires_for_what_it_is_for_and_not_for_what_is_usual():
    done = subprocess.run(["promtool", "test", "rules", CASES], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not():
    tried = {True: set(), False: set()}
    for case in yaml.safe_load(CASES.read_text())["tests"]:
        for one in case["alert_rule_test"]:
            tried[bool(one["exp_alerts"])].add(one["alertname"])
    assert tried[True] == tried[False] == set(ALERTS)

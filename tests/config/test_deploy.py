"""The service is fit to be deployed as it comes."""

import os
import re
import secrets
import shutil
import subprocess
import sys

import pytest
import yaml

from config.environment import ROOT
from events.refusals import Refused

pytestmark = pytest.mark.once

DEPLOY = ROOT / "deploy"
UNITS = ("signals-web@8001.service", "signals-daily.service", "signals-daily.timer")
# Where nginx speaks of something else than a body, or cannot say that nothing was done.
SAID_OTHERWISE = {"malformed", "internal", "unavailable"}


def test_the_deployment_check_finds_nothing():
    key = secrets.token_hex(32)
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=ROOT,
        env={
            "PATH": os.environ["PATH"],
            "ENV_FILE": os.devnull,
            "BASE_URL": "https://signals.example",
            "SECRET_KEY": key,
            "TOKEN_KEYS": key,
            "SECRET_KEYS": key,
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


# --- systemd --------------------------------------------------------------------------------------


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="not run for lack of systemd")
@pytest.mark.parametrize("unit", UNITS)
def test_systemd_finds_nothing_wrong_with_the_units(unit, tmp_path):
    for file in (DEPLOY / "systemd").iterdir():
        (tmp_path / file.name).write_text(file.read_text().replace("/srv/signals", str(ROOT)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", tmp_path / unit],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


# --- Containers -----------------------------------------------------------------------------------


@pytest.fixture
def compose():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def test_the_containers_of_nginx_have_every_file_that_its_configuration_reads(compose):
    mounts = [volume.split(":") for volume in compose["services"]["nginx"]["volumes"]]
    inside = {target.removeprefix("/etc/signals/"): source for source, target, _ in mounts}
    text = "".join((DEPLOY / name).read_text() for name in ("nginx.conf", "service.conf"))
    read = set(re.findall(r"^ *include ([^;]+);", text, re.M))
    assert inside.keys() == {"nginx.conf", "tls", *read}
    assert all((DEPLOY / inside[name]).is_file() for name in ("nginx.conf", *read))


def test_nginx_asks_the_web_servers_that_there_are(compose):
    asked = re.findall(r"server (\w+):8000", (DEPLOY / "web.compose.conf").read_text())
    assert asked == [name for name in compose["services"] if name.startswith("web")]
    hosts = compose["services"]["web1"]["environment"]["ALLOWED_HOSTS"].split(",")
    assert {"localhost", *asked} <= set(hosts)


def test_the_two_ways_to_deploy_differ_in_the_addresses_alone():
    servers = re.compile(r"server \S+")
    texts = [(DEPLOY / name).read_text() for name in ("web.conf", "web.compose.conf")]
    assert len({servers.sub("server", text) for text in texts}) == 1


# --- nginx ----------------------------------------------------------------------------------------


def mapped(variable):
    """What one variable of refusals.conf is mapped to: text by text."""
    text = (DEPLOY / "refusals.conf").read_text()
    block = re.search(rf"^map \S+ \${variable} {{\n(.*?)^}}", text, re.M | re.S).group(1)
    return dict(re.findall(r'^ +(\w+) "?(.*?)"?;$', block, re.M))


def test_nginx_refuses_in_the_services_own_words():
    refusals = {refusal.code: refusal for refusal in Refused.registry()}
    codes, titles, details = mapped("code"), mapped("title"), mapped("detail")
    assert codes == {str(refusals[code].status): code for code in codes.values()}
    assert titles == {code: refusals[code].title for code in codes.values()}
    assert details.keys() == titles.keys()
    assert {c: d for c, d in details.items() if d != refusals[c].detail}.keys() == SAID_OTHERWISE

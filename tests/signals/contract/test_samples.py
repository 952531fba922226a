"""The code samples of a bot's page work unchanged against a running server."""

import re
import shutil
import subprocess
import sys
from datetime import timedelta

import pytest
from django.utils.timezone import now

from events.times import to_rfc3339
from signals.intake.models import Signal
from tests.client import push, signed_in
from tests.factories import a_bot, a_card, a_connected_desk, expect
from tests.pages import copied

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes, pytest.mark.once]

TOOLS = ("sh", "curl", "openssl", "sed", "date")


@pytest.fixture
def served(live_server, settings):
    settings.BASE_URL = live_server.url
    return live_server


@pytest.fixture
def desk():
    return a_connected_desk()


def secret_page(desk, bot):
    """The page shown after generating a secret: the value, the body and the code samples."""
    answer = signed_in(desk.user).post(f"/bots/{bot.id}/secret", {"overlap": "0"})
    return copied(answer)


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=300).stdout


def needs(*tools):
    missing = [tool for tool in tools if shutil.which(tool) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not run for lack of {', '.join(missing)}")


@needs(*TOOLS)
@pytest.mark.parametrize("pair", ["ETH/USDT", "A.-_9/Z_-.0"])
def test_the_shell_code_pushes_a_signal_each_time_it_is_pasted(served, desk, pair):
    shell = secret_page(desk, a_bot(desk, pair))[2]
    outcomes = [run("sh", "-c", shell) for _ in range(2)]
    assert all('"outcome":"filled"' in outcome for outcome in outcomes), outcomes
    assert Signal.objects.filter(pair=pair).count() == 2


def test_the_python_code_pushes_a_signal_each_time_it_is_pasted(served, desk):
    python = secret_page(desk, a_bot(desk))[4]
    outcomes = [run(sys.executable, "-c", python) for _ in range(2)]
    assert all('"outcome":"filled"' in outcome for outcome in outcomes), outcomes


@needs("node")
def test_the_node_code_pushes_a_signal_each_time_it_is_pasted(served, desk):
    node = secret_page(desk, a_bot(desk))[5]
    outcomes = [run("node", "-e", node) for _ in range(2)]
    assert all('"outcome":"filled"' in outcome for outcome in outcomes), outcomes


@needs("php")
def test_the_php_code_pushes_a_signal_each_time_it_is_pasted(served, desk, tmp_path):
    file = tmp_path / "push.php"
    file.write_text(secret_page(desk, a_bot(desk))[6])
    outcomes = [run("php", str(file)) for _ in range(2)]
    assert all('"outcome":"filled"' in outcome for outcome in outcomes), outcomes


@pytest.mark.parametrize("max_age", [None, timedelta(hours=1)])
def test_the_powershell_code_builds_a_body_that_is_accepted(served, desk, max_age):
    """Debian has no PowerShell: this evaluates the one expression that builds the body."""
    bot = a_bot(desk)
    expect(bot, max_age=max_age)
    secret, _, _, code, *_ = secret_page(desk, bot)
    assert code.isascii()
    assert f"$secret = '{secret}'" in code
    expression = re.search(r"^\$body = ((?:.+\+\n)*.+)$", code, re.M)[1]
    values = {"$nonce": "one", "$sentAt": to_rfc3339(now())}
    terms = re.findall(r"'([^']*)'|(\$\w+)", expression)
    body = "".join(literal or values.get(name, "") for literal, name in terms)
    assert push(body.encode(), secret=secret).json()["outcome"] == "filled"
    assert ("$sentAt" in code) == bool(max_age)


@pytest.mark.parametrize(
    ("place", "command"),
    [
        pytest.param(2, ["sh", "-c"], marks=needs(*TOOLS)),
        (4, [sys.executable, "-c"]),
        pytest.param(5, ["node", "-e"], marks=needs("node")),
    ],
)
def test_the_code_of_a_bot_with_a_maximum_age_says_when_it_sends(served, desk, place, command):
    bot = a_bot(desk)
    expect(bot, max_age=timedelta(hours=1))
    assert '"outcome":"filled"' in run(*command, secret_page(desk, bot)[place])


def test_the_python_code_shows_a_refusal(served, desk):
    bot = a_bot(desk)
    python = secret_page(desk, bot)[4].replace("ETH/USDT", "SOL/USDT")
    assert "pair_mismatch" in run(sys.executable, "-c", python)


@needs("sh", "curl")
def test_the_line_under_a_desk_token_reads_the_desk(served, desk):
    a_card()
    line = copied(signed_in(desk.user).post("/desk/token"))[1]
    assert f'"userId":"{desk.public_id}"' in run("sh", "-c", line)

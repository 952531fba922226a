"""The code samples of a bot's page work unchanged against a running server."""

import re
import shutil
import subprocess
import sys
from datetime import timedelta

import pytest
from django.utils.timezone import now

from events.times import to_rfc3339
from signals.contract import sample_code
from signals.contract.document import ANY_PAIR, BOT_ID
from signals.intake.models import Signal
from tests.client import HOOK, get, push, signed_in
from tests.factories import a_bot, a_card, a_connected_desk, expect
from tests.pages import copied, source
from tests.signals.contract.test_page import FIREFOX

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes, pytest.mark.once]

PROGRAMS = {
    "shell": "sh",
    "powershell": "pwsh",
    "python": sys.executable,
    "node": "node",
    "php": "php",
}


@pytest.fixture
def served(live_server, settings):
    settings.BASE_URL = live_server.url
    return live_server


@pytest.fixture
def desk():
    return a_connected_desk()


def shown_with_a_secret(desk, bot):
    """What the page shows after generating a secret: the value, and the code by language."""
    answer = signed_in(desk.user).post(f"/bots/{bot.id}/secret", {"overlap": "0"})
    secret, _, *codes = copied(answer)
    return secret, dict(zip(PROGRAMS, codes, strict=False))


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=300).stdout


@pytest.mark.parametrize("max_age", [None, timedelta(hours=1)], ids=["any age", "maximum age"])
@pytest.mark.parametrize("language", PROGRAMS)
def test_the_code_sends_a_signal_each_time_it_is_pasted(served, desk, tmp_path, language, max_age):
    if not shutil.which(PROGRAMS[language]):
        pytest.skip(f"not run for lack of {PROGRAMS[language]}")
    bot = a_bot(desk, "A.-_9/Z_-.0")
    expect(bot, max_age=max_age)
    file = tmp_path / ("pasted.ps1" if language == "powershell" else "pasted")
    file.write_text(shown_with_a_secret(desk, bot)[1][language])
    outcomes = [run(PROGRAMS[language], file) for _ in range(2)]
    assert all('"outcome":"filled"' in outcome for outcome in outcomes), outcomes
    assert Signal.objects.count() == 2


def test_the_code_of_the_contracts_page_is_that_of_a_bot_once_its_values_are_filled_in(desk):
    bot = a_bot(desk)
    secret, codes = shown_with_a_secret(desk, bot)
    page = get(HOOK, Accept=FIREFOX)
    shown = [text for text in copied(page) if sample_code.SECRET in text]
    for placeholder, value in {
        BOT_ID: bot.id,
        sample_code.SECRET: secret,
        ANY_PAIR: "ETH/USDT",
        sample_code.ANY_DIRECTION: "short",
    }.items():
        assert all(placeholder in code for code in shown)
        shown = [code.replace(placeholder, value) for code in shown]
    assert shown == list(codes.values())
    assert "&lt;?php" in source(page)
    assert "<?php" not in source(page)


@pytest.mark.parametrize("max_age", [None, timedelta(hours=1)])
def test_the_powershell_code_builds_a_body_that_is_accepted(served, desk, max_age):
    """Debian has no PowerShell: this evaluates the one expression that builds the body."""
    bot = a_bot(desk)
    expect(bot, max_age=max_age)
    secret, codes = shown_with_a_secret(desk, bot)
    code = codes["powershell"]
    assert code.isascii()
    assert f"$secret = '{secret}'" in code
    expression = re.search(r"^\$body = ((?:.+\+\n)*.+)$", code, re.M)[1]
    values = {"$nonce": "one", "$sentAt": to_rfc3339(now())}
    terms = re.findall(r"'([^']*)'|(\$\w+)", expression)
    body = "".join(literal or values.get(name, "") for literal, name in terms)
    assert push(body.encode(), secret=secret).json()["outcome"] == "filled"
    assert ("$sentAt" in code) == bool(max_age)


def test_the_line_under_a_desk_token_reads_the_desk(served, desk):
    a_card()
    line = copied(signed_in(desk.user).post("/desk/token"))[1]
    assert f'"userId":"{desk.public_id}"' in run("sh", "-c", line)

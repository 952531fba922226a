"""The code of the contract's page sends a first signal as pasted, with a bot's values filled in."""

import shutil
import subprocess
import sys

import pytest

from signals.contract import sample_code
from signals.contract.document import ANY_PAIR, BOT_ID
from signals.intake.models import Signal
from tests.client import HOOK, get
from tests.factories import a_bot, a_connected_desk
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


def codes() -> dict[str, str]:
    """The code of the page in each language, as it is copied."""
    shown = [text for text in copied(get(HOOK, Accept=FIREFOX)) if sample_code.SECRET in text]
    return dict(zip(PROGRAMS, shown, strict=True))


def test_the_page_escapes_the_code():
    shown = source(get(HOOK, Accept=FIREFOX))
    assert "&lt;?php" in shown
    assert "<?php" not in shown


@pytest.mark.parametrize("language", PROGRAMS)
def test_the_code_sends_a_signal_each_time_it_is_pasted(live_server, settings, language, tmp_path):
    if not shutil.which(PROGRAMS[language]):
        pytest.skip(f"not run for lack of {PROGRAMS[language]}")
    settings.BASE_URL = live_server.url
    bot = a_bot(a_connected_desk(), "ETH/USDT", "short")
    code = codes()[language]
    for placeholder, value in {
        BOT_ID: bot.id,
        sample_code.SECRET: bot.secret,
        ANY_PAIR: "ETH/USDT",
        sample_code.ANY_DIRECTION: "short",
    }.items():
        assert placeholder in code
        code = code.replace(placeholder, value)
    file = tmp_path / ("pasted.ps1" if language == "powershell" else "pasted")
    file.write_text(code)
    for count in (1, 2):
        done = subprocess.run(
            [PROGRAMS[language], file], capture_output=True, text=True, timeout=300, check=False
        )
        assert '"outcome":"filled"' in done.stdout, done
        assert Signal.objects.count() == count

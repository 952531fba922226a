"""The README's examples work: engine and shell."""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import distribution

import pytest

from signals.client import Engine
from tests.server import READY, ROOT

pytestmark = [pytest.mark.processes, pytest.mark.once]

README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
IN_TIME = 120  # seconds
# What the client needs: httpx2, and what that needs.
NEEDED = ("httpx2", "httpcore2", "h11", "anyio", "idna", "truststore", "typing-extensions")


def block(language: str, holding: str) -> str:
    """Returns the one code block of a language that contains this text."""
    (found,) = [
        text for kind, text in BLOCK.findall(README) if kind == language and holding in text
    ]
    return found


def in_shell(script: str, web, **environment: str) -> str:
    script = script.replace("http://localhost:8000", web.base_url)
    done = subprocess.run(
        ["sh", "-e", "-c", script],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=IN_TIME,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def python(web, tmp_path_factory):
    """The Python of a new environment, into which pip installs the client as the README says.

    pip is linked there, which takes less time than its installation, and so is what the client
    needs from a package index.
    """
    folder = tmp_path_factory.mktemp("engine")
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=IN_TIME
    )
    (packages,) = folder.glob("lib/*/site-packages")
    for needed in map(distribution, ["pip", *NEEDED]):
        for name in {file.parts[0] for file in needed.files} - {"..", "__pycache__"}:
            (packages / name).symlink_to(needed.locate_file(name))
    command = block("sh", "pip install").strip()
    assert command.startswith("pip install ")
    in_shell(f"{folder}/bin/python -m {command} --no-index --quiet", web)
    return folder / "bin" / "python"


def test_the_example_engine_fills_the_desks_and_prints_what_happens(web, python, tmp_path):
    (tmp_path / "engine.py").write_text(block("python", "def trade(engine"))
    card, token = web.seed["card"], web.seed["platformToken"]
    with subprocess.Popen(
        [python, "-u", "engine.py"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "SIGNALS_URL": web.base_url, "SIGNALS_TOKEN": token},
        stdout=subprocess.PIPE,
        text=True,
    ) as example:
        try:
            # What its two threads print at the same time may be one line.
            filled = f"{READY} of {READY} desks filled: {card['pair']} {card['direction']}"
            assert any(filled in line for line in example.stdout)
            with Engine(web.base_url, token) as other:
                position = other.fan_out(card, nonce="after").signal["position"]
            printed = re.compile(rf"(?<!\d){position} signal\.filled  all")
            assert any(map(printed.search, example.stdout))
        finally:
            example.kill()


def test_a_signal_is_signed_in_a_shell_as_it_says(web):
    bot = web.seed["automation"]
    script = block("sh", "openssl dgst")
    for placeholder, value in (
        ("bot_…", bot["botId"]),
        ('"pair":"ETH/USDT"', f'"pair":"{bot["pair"]}"'),
        ('"direction":"long"', f'"direction":"{bot["direction"]}"'),
    ):
        assert placeholder in script
        script = script.replace(placeholder, value)
    first = json.loads(in_shell(script, web, SECRET=bot["secret"]))
    again = json.loads(in_shell(script, web, SECRET=bot["secret"]))
    assert (first["outcome"], again["code"]) == ("filled", "nonce_used")


def test_the_engines_calls_answer_as_it_says(web):
    said = in_shell(block("sh", "desks?ready=1"), web, TOKEN=web.seed["platformToken"])
    assert said.count('"ready":true') == READY
    assert '"outcome":"filled"' in said
    assert '"kind":"signal.filled"' in said


def test_curl_shows_the_stream_as_it_says(web):
    token = web.seed["platformToken"]
    script = f"exec {block('sh', 'event-stream')}"
    with subprocess.Popen(
        ["sh", "-c", script.replace("http://localhost:8000", web.base_url)],
        env={"PATH": os.environ["PATH"], "TOKEN": token},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout.readline().startswith("retry: ")
            with Engine(web.base_url, token) as engine:
                engine.fan_out(engine.card(), nonce="curl")
            assert "event: signal.filled\n" in process.stdout  # reads until it comes
        finally:
            process.terminate()

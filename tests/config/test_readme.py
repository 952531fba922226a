"""The README's examples work: engine and shell."""

import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from importlib.metadata import distribution

import pytest

from signals.client import Engine
from tests.conformance.client import OF_ANOTHER_LOG
from tests.server import READY, ROOT, guarded, serving_beside

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


@contextmanager
def example_engine(python, folder, base_url, token):
    """The example engine, as a process."""
    (folder / "engine.py").write_text(block("python", "def trade(engine"))
    with subprocess.Popen(
        [python, "-u", "engine.py"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "SIGNALS_URL": base_url, "SIGNALS_TOKEN": token},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(example, *texts):
    """Reads what it prints until each of these texts has come. Returns what was read.

    What its two threads print at the same time may be one line.
    """
    printed = ""
    while not all(text in printed for text in texts):
        line = example.stdout.readline()
        assert line, f"It ended: {printed}"
        printed += line
    return printed


def test_the_example_engine_fills_the_desks_and_prints_what_happens(web, python, tmp_path):
    card, token = web.seed["card"], web.seed["platformToken"]
    with example_engine(python, tmp_path, web.base_url, token) as example:
        # " already" may be between, if another engine signalled in this minute.
        filled = (f"{READY} of {READY} desks filled", f": {card['pair']} {card['direction']}")
        read_until(example, *filled)
        with Engine(web.base_url, token) as other:
            position = other.fan_out(card, nonce="after").signal["position"]
        read_until(example, f"{position} signal.filled  all")


def test_the_example_engine_misses_and_repeats_nothing_over_a_restart(web, python, tmp_path):
    away, back = "The service does not answer.", "The service answers again."
    token = web.seed["platformToken"]
    with Engine(web.base_url, token) as other, ExitStack() as stack:
        start = other.tail()
        (tmp_path / "engine.cursor").write_text(start)

        def fan_out(nonce):
            """Sends a signal. Returns what the example prints of it."""
            position = other.fan_out(web.seed["card"], nonce=nonce).signal["position"]
            return f"{position} signal.filled"

        with serving_beside(web, WEB_CONCURRENCY="1") as beside:
            example = stack.enter_context(example_engine(python, tmp_path, beside.base_url, token))
            printed = read_until(example, "desks filled", fan_out("before-a-restart"))
        printed += read_until(example, away)
        meanwhile = fan_out("meanwhile")
        with guarded(beside):
            printed += read_until(example, back, meanwhile)
            printed += read_until(example, fan_out("after-a-restart"))
        happened = other.page(start, kinds=["signal.filled", "signal.refused"])["events"]
    assert (printed.count(away), printed.count(back)) == (1, 1)
    positions = [int(position) for position in re.findall(r"(\d+) signal\.", printed)]
    assert positions == [event["position"] for event in happened][: len(positions)]


def test_the_example_engine_ends_with_one_sentence_if_its_token_is_not_valid(web, python, tmp_path):
    with example_engine(python, tmp_path, web.base_url, "svc_plat_none") as example:
        printed, _ = example.communicate(timeout=IN_TIME)
    assert example.returncode == 1
    advice = r"Mint a token in the control area, .* SIGNALS_TOKEN\."
    assert re.fullmatch(rf"The engine stops: 401 token_invalid: .+\n{advice}\n", printed)


def test_the_example_engine_says_what_to_delete_if_the_log_is_another_one(web, python, tmp_path):
    (tmp_path / "engine.cursor").write_text(OF_ANOTHER_LOG)
    token = web.seed["platformToken"]
    with example_engine(python, tmp_path, web.base_url, token) as example:
        printed, _ = example.communicate(timeout=IN_TIME)
    assert example.returncode == 1
    assert "The engine stops: 422 cursor_lost: " in printed
    assert "delete the file engine.cursor, and start again." in printed


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

"""The README's examples work: engine and shell."""

import json
import os
import re
import subprocess
import sys
import threading
from contextlib import ExitStack
from importlib.metadata import distribution
from queue import Queue

import pytest

from events.http.cursors import log_cursor
from events.http.refusals import TokenInvalid
from signals.client import Engine
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


class ExampleEngine:
    """The example engine of the README, as a process. ``printed`` are its lines so far."""

    def __init__(self, python, folder, base_url, token):
        (folder / "engine.py").write_text(block("python", "def trade(engine"))
        self.printed = []
        self._lines = Queue()
        self._process = subprocess.Popen(
            [python, "-u", "engine.py"],
            cwd=folder,
            env={"PATH": os.environ["PATH"], "SIGNALS_URL": base_url, "SIGNALS_TOKEN": token},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            self._lines.put(line)

    def wait_for(self, form):
        """Waits until it prints this. Raises Empty if it prints nothing more.

        What its two threads print at the same time may be one line.
        """
        while not any(re.search(form, line) for line in self.printed):
            self.printed.append(self._lines.get(timeout=IN_TIME))

    @property
    def positions(self):
        """The positions of the events that it has printed."""
        return [int(found) for found in re.findall(r"(\d+) signal\.", "".join(self.printed))]

    def end(self):
        """Waits for its end. Returns its status and all that it printed."""
        status = self._process.wait(IN_TIME)
        self._reader.join()
        return status, "".join([*self.printed, *self._lines.queue])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._process.stdout.close()


def test_the_example_engine_misses_and_repeats_nothing_over_a_restart(web, python, tmp_path):
    card, token = web.seed["card"], web.seed["platformToken"]
    with Engine(web.base_url, token) as other, ExitStack() as stack:

        def fan_out(nonce):
            position = other.fan_out(card, nonce=nonce).signal["position"]
            return rf"(?<!\d){position} signal\.filled  all"

        with serving_beside(web, WEB_CONCURRENCY="1") as beside:
            example = stack.enter_context(ExampleEngine(python, tmp_path, beside.base_url, token))
            example.wait_for(
                rf"{READY} of {READY} desks filled: {card['pair']} {card['direction']}"
            )
            example.wait_for(fan_out("before"))
        example.wait_for("The service does not answer. The client waits and tries again.")
        meanwhile = fan_out("meanwhile")
        with guarded(beside):
            example.wait_for(meanwhile)
            said = "".join(example.printed)
            assert said.count("The client waits") == said.count("The service answers again.") == 1
            example.wait_for(fan_out("after"))
        happened, after = [], None
        while (page := other.page(after, kinds=["signal.filled", "signal.refused"]))["events"]:
            happened += [event["position"] for event in page["events"]]
            after = page["next"]
        assert example.positions == happened[: len(example.positions)]


def test_the_example_engine_ends_with_one_sentence_if_its_token_is_not_valid(web, python, tmp_path):
    with ExampleEngine(python, tmp_path, web.base_url, "svc_plat_none") as example:
        status, printed = example.end()
    detail = re.escape(TokenInvalid.detail)
    assert status == 1
    advice = r"Mint a token in the control area, .*SIGNALS_TOKEN\."
    assert re.fullmatch(rf"The engine stops: 401 token_invalid: {detail}\n{advice}\n", printed)


def test_the_example_engine_says_what_to_delete_if_the_log_is_another_one(web, python, tmp_path):
    (tmp_path / "engine.cursor").write_text(log_cursor("another", 1))
    with ExampleEngine(python, tmp_path, web.base_url, web.seed["platformToken"]) as example:
        status, printed = example.end()
    assert status == 1
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

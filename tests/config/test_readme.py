"""The README's examples work: engine, shell and loop."""

import json
import os
import re
import subprocess
import sys
import threading
from queue import Queue

import httpx2
import pytest

from signals.client import Engine
from tests.client import signed
from tests.conformance.client import Service
from tests.server import READY, ROOT, serving

pytestmark = [pytest.mark.processes, pytest.mark.once]

README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
IN_TIME = 120  # seconds


@pytest.fixture(scope="module")
def server():
    with serving() as server:
        yield server


def block(language: str, holding: str) -> str:
    """Returns the one code block of a language that contains this text."""
    (found,) = [
        text for kind, text in BLOCK.findall(README) if kind == language and holding in text
    ]
    return found


def in_shell(script: str, server, **environment: str) -> str:
    script = script.replace("http://localhost:8000", server.base_url)
    done = subprocess.run(
        ["sh", "-e", "-c", script],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=IN_TIME,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_engine_signals_and_is_told_what_became_of_it(server, tmp_path):
    code = block("python", "def trade(engine")
    assert len(code.splitlines()) < 60
    (tmp_path / "engine.py").write_text(code)
    process = subprocess.Popen(
        [sys.executable, "-u", "engine.py"],
        cwd=tmp_path,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "SIGNALS_URL": server.base_url,
            "SIGNALS_TOKEN": server.seed["platformToken"],
        },
        stdout=subprocess.PIPE,
        text=True,
    )
    printed: Queue[str] = Queue()
    reader = threading.Thread(target=lambda: [printed.put(line) for line in process.stdout])
    reader.start()
    card = server.seed["card"]
    missing = [
        rf"{READY} of {READY} desks filled: {card['pair']} {card['direction']}\n",
        r"\d+ signal\.filled  all\n",
    ]
    try:
        while missing:
            line = printed.get(timeout=IN_TIME)  # raises Empty where one of them never comes
            missing = [form for form in missing if not re.fullmatch(form, line)]
    finally:
        process.terminate()
        process.wait()
        reader.join()
        process.stdout.close()


def test_a_signal_is_signed_in_a_shell_as_it_says(server):
    bot = server.seed["automation"]
    script = block("sh", "openssl dgst")
    for placeholder, value in (
        ("bot_…", bot["botId"]),
        ('"pair":"ETH/USDT"', f'"pair":"{bot["pair"]}"'),
        ('"direction":"long"', f'"direction":"{bot["direction"]}"'),
    ):
        assert placeholder in script
        script = script.replace(placeholder, value)
    first = json.loads(in_shell(script, server, SECRET=bot["secret"]))
    again = json.loads(in_shell(script, server, SECRET=bot["secret"]))
    assert (first["outcome"], again["code"]) == ("filled", "nonce_used")


def test_the_engines_calls_answer_as_it_says(server):
    said = in_shell(block("sh", "desks?ready=1"), server, TOKEN=server.seed["platformToken"])
    assert said.count('"ready":true') == READY
    assert '"outcome":"filled"' in said
    assert '"kind":"signal.filled"' in said


def test_curl_shows_the_stream_as_it_says(server):
    token = server.seed["platformToken"]
    script = f"exec {block('sh', 'event-stream')}"
    with subprocess.Popen(
        ["sh", "-c", script.replace("http://localhost:8000", server.base_url)],
        env={"PATH": os.environ["PATH"], "TOKEN": token},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout.readline().startswith("retry: ")
            with Engine(server.base_url, token) as engine:
                engine.fan_out(engine.card(), nonce="curl")
            assert "event: signal.filled\n" in process.stdout  # reads until it comes
        finally:
            process.terminate()


def test_the_loop_ends_with_the_first_answer_however_often_it_is_asked(server):
    with Service(server.base_url, server.seed) as service:
        body = httpx2.Request("POST", "http://localhost", json=service.tradingview()).content
    given = {
        "httpx2": httpx2,
        "url": f"{server.base_url}/api/hooks/signal",
        "body": body,
        "sign": lambda body: signed(server.seed["automation"]["secret"], body=body),
    }
    code = compile(block("python", "while True:\n    try:\n        answer"), "README.md", "exec")
    first, again = dict(given), dict(given)
    exec(code, first)  # noqa: S102 - the README's own
    exec(code, again)  # noqa: S102
    assert first["outcome"]["outcome"] == "filled"
    assert again["outcome"]["signal"] == first["outcome"]["signal"]

"""Sends generated input to every operation, as each kind of caller, and checks each response
against the OpenAPI document.

EXAMPLES=1000 sets the number of inputs for each operation. schemathesis.toml configures the input
and lists the exceptions. ``make test`` plays the callers who reach the most, ``make drills`` all.
"""

import json
import os
import re
import string
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.drills.stage import in_drills
from tests.server import Server, serving

EXAMPLES = int(os.environ.get("EXAMPLES", "5"))
SECONDS = 300 + 10 * EXAMPLES
CONFIGURATION = Path(__file__).with_name("schemathesis.toml")
# Callers present their own credentials; schemathesis must not generate others.
AS_IT_IS = ("--generation-with-security-parameters", "false")

pytestmark = [pytest.mark.processes, pytest.mark.once, pytest.mark.timeout(SECONDS)]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    # Without this, each input with ``wait`` would take up to 25 seconds.
    with serving(WEB_CONCURRENCY="1", WAITING_READERS="0") as served:
        yield served


@pytest.fixture(scope="module")
def input_file(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration, with existing ids in place of some generated ones."""
    headers = {"Authorization": f"Bearer {server.seed['readToken']}"}
    listed = httpx2.get(f"{server.base_url}/api/v1/tokens", headers=headers, trust_env=False)
    # The nonce is the one that schemathesis makes up first, beside each value of ``source``.
    signal = {**server.seed["card"], "nonce": "0", "elected": True, "source": "floor"}
    sent = httpx2.post(
        f"{server.base_url}/api/hooks/signal",
        json={name: value for name, value in signal.items() if name != "name"} | {"fanout": True},
        headers={"Authorization": f"Bearer {server.seed['platformToken']}"},
        trust_env=False,
    )
    real = {
        "signal": sent.json()["signal"]["id"],
        "nonce": sent.json()["signal"]["nonce"],
        "token": listed.json()["tokens"][0]["id"],
        "user": server.seed["desks"][0]["userId"],
        "bot": server.seed["automation"]["botId"],
        **{name: server.seed["card"][name] for name in ("pair", "direction")},
    }
    file = tmp_path_factory.mktemp("input") / CONFIGURATION.name
    file.write_text(string.Template(CONFIGURATION.read_text()).substitute(real))
    return file


@in_drills
def test_nobody(server, input_file, tmp_path):
    """Without the cases for each rule of a schema: nearly every answer is 401."""
    served = attack(server, input_file, tmp_path, "--phases", "examples,fuzzing")
    assert served == {"GET /api/v1", "GET /api/hooks/signal"}


def test_a_platform_token(server, input_file, tmp_path):
    served = attack(
        server,
        input_file,
        tmp_path,
        *bearer(server.seed["platformToken"]),
        "--exclude-method",
        "DELETE",
    )
    assert served == {
        "GET /api/v1",
        "GET /api/v1/desks",
        "GET /api/v1/desks/{userId}",
        "POST /api/v1/desks/{userId}/signal",
        "GET /api/v1/events",
        "GET /api/v1/signals",
        "GET /api/v1/signals/{signalId}",
        "GET /api/v1/subscriptions",
        "GET /api/v1/tokens",
        "GET /api/hooks/signal",
        "POST /api/hooks/signal",
        "POST /api/hooks/check",
    }


@in_drills
def test_a_platform_token_that_revokes_itself(server, input_file, tmp_path):
    """A separate test, because no request succeeds after the first revocation."""
    served = attack(
        server,
        input_file,
        tmp_path,
        *bearer(server.seed["readToken"]),
        "--include-method",
        "DELETE",
    )
    assert served == {"DELETE /api/v1/tokens"}


def test_a_desk_token(server, input_file, tmp_path):
    """Only GET, because it changes nothing."""
    token = server.seed["desks"][1]["deskToken"]
    served = attack(server, input_file, tmp_path, *bearer(token), "--include-method", "GET")
    assert served == {
        "GET /api/v1",
        "GET /api/v1/me",
        "GET /api/v1/bots",
        "GET /api/v1/events",
        "GET /api/v1/subscriptions",
        "GET /api/v1/tokens",
        "GET /api/hooks/signal",
    }


def test_a_customer_who_is_signed_in(server, input_file, tmp_path):
    served = attack(
        server, input_file, tmp_path, *session(server, "user"), "--include-tag", "Tokens"
    )
    assert served == {"GET /api/v1/tokens", "POST /api/v1/tokens", "DELETE /api/v1/tokens"}


@in_drills
def test_staff_who_are_signed_in(server, input_file, tmp_path):
    """Without DELETE, because staff could revoke the tokens of the other tests.

    And without the cases for each rule: the customer's are of the same schema.
    """
    only = (
        *("--include-tag", "Tokens", "--exclude-method", "DELETE"),
        *("--phases", "examples,fuzzing"),
    )
    served = attack(server, input_file, tmp_path, *session(server, "admin"), *only)
    assert served == {"GET /api/v1/tokens", "POST /api/v1/tokens"}


def attack(server: Server, input_file: Path, folder: Path, *options: str) -> set[str]:
    """Runs schemathesis with the options. Returns the operations that succeeded at least once.

    A caller whose requests were all refused would prove nothing.
    """
    report = folder / "report.har"
    command = (
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(input_file), "run"),
        *(f"{server.base_url}/api/schema", "--url", server.base_url),
        *("--max-examples", str(EXAMPLES), "--continue-on-failure"),
        *("--report", "har", "--report-har-path", str(report), *options),
    )
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    print(done.stdout)  # the statistics and the failures
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    return served_in(json.loads(report.read_text())["log"]["entries"])


def served_in(entries: list[dict]) -> set[str]:
    """The operations that got a response with a 2xx status."""
    served = set()
    for entry in entries:
        request, status = entry["request"], entry["response"]["status"]
        if 200 <= status < 300 and request["method"] in ("GET", "POST", "DELETE"):
            path = re.sub("/usr_[^/]+", "/{userId}", urlsplit(request["url"]).path)
            path = re.sub("/sig_[^/]+", "/{signalId}", path)
            served.add(f"{request['method']} {path}")
    return served


def bearer(token: str) -> tuple[str, ...]:
    return ("--header", f"Authorization: Bearer {token}", *AS_IT_IS)


def session(server: Server, who: str) -> tuple[str, ...]:
    """The headers of a seeded user who is signed in."""
    account = server.seed[who]
    with httpx2.Client(base_url=server.base_url, trust_env=False) as browser:
        browser.get("/accounts/login/")
        form = {"login": account["email"], "password": account["password"]}
        token = browser.cookies["csrf"]
        browser.post("/accounts/login/", data={**form, "csrfmiddlewaretoken": token})
        cookies = "; ".join(f"{name}={browser.cookies[name]}" for name in ("session", "csrf"))
        csrf = ("--header", f"X-CSRFToken: {browser.cookies['csrf']}")
    return ("--header", f"Cookie: {cookies}", *csrf, *AS_IT_IS)

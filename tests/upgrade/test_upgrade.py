"""A database of the first release, with data, is upgraded while that release serves it.

``BASE`` is the commit whose migrations all later ones build on. Its own code makes the database,
fills it and serves it, beside the code of this checkout.
"""

import json
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import psycopg
import pytest

from tests import prepared
from tests.client import DESKS, EVENTS, HOOK, JSON, bearer, deploy_path, signed, written
from tests.server import (
    ADDRESS,
    ROOT,
    Server,
    collect_static_files,
    environment_of,
    free_port,
    guarded,
    manage,
    run_python,
    serving_beside,
)
from tests.signals.bodies import deploy, fanout, nox
from tests.streams import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.slow]

BASE = "9b089cc11be32e4e8031f5c0d5cdf97108396750"
APPS = ("desks", "events", "signals", "tokens")

# Apps of the base that hold static files alone. This release does not install them.
NOT_REQUIRED_ANY_MORE = ("drf_spectacular_sidecar",)

# Runs in the base's own tree, so it uses names as they were then.
FILL = """
import django
django.setup()
from django.apps import apps
from django.core.management import call_command
from django.test.utils import setup_test_environment
from django.utils import timezone
setup_test_environment()
call_command("migrate", interactive=False, verbosity=0)
call_command("createcachetable", verbosity=0)

from desks.models import NoticeChoice
from desks.notices.digests import choose_hour
from events.actors import SYSTEM
from signals.chats.actions import new_code
from signals.chats.sharing import share
from signals.models import Chat
from signals.notices.following import follow
from tests.signals.audit.stage import a_lively_history
from tests.signals.subscriptions.stage import webhooks_to_look_at
from tokens.actions import mint_desk_token

def tell():
    while follow(timezone.now()):
        pass

tell()
a_lively_history()
user = Chat.objects.get().user
webhooks_to_look_at(user.desk)
choose_hour(user, 7, timezone.now())
NoticeChoice.objects.create(user=user, off=["missed"])
new_code(user=user, now=timezone.now())
tell()
while share(timezone.now()):
    pass
mint_desk_token(desk=user.desk, actor=SYSTEM)
tell()
call_command("seed", "--desks=12", "--idle=3", "--nox", "--json", "--force")
"""


# What the base has queued. The migration moves it into the present outbox.
QUEUED = {"desks_notice", "signals_chatmessage"}

# Tables that no part of the fill needs.
EMPTY = {"desks_user_groups", "desks_user_user_permissions"}


def answered(method: str, url: str, **request: Any) -> httpx2.Response:
    """Asks until the answer is no 503: the base does not wait as long as a busy machine needs."""
    answers: list[httpx2.Response] = []

    def is_taken() -> bool:
        answers.append(httpx2.request(method, url, trust_env=False, **request))
        return answers[-1].status_code != 503

    wait_until(is_taken, "It takes nothing.")
    return answers[-1]


def get(server: Server, path: str, token: str) -> Any:
    answer = answered("GET", server.base_url + path, headers=bearer(token))
    assert answer.status_code == 200, answer.text
    return answer.json()


def post(server: Server, path: str, body: dict[str, Any], headers: dict[str, str]) -> Any:
    answer = answered(
        "POST",
        server.base_url + path,
        content=written(body),
        headers={"Content-Type": JSON, **headers},
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


def push(server: Server, body: dict[str, Any], secret: str) -> Any:
    return post(server, HOOK, body, signed(secret, body=written(body)))


@pytest.fixture(scope="module")
def code_of_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of the base commit."""
    archive = subprocess.run(["git", "archive", BASE], cwd=ROOT, capture_output=True, check=False)
    assert archive.returncode == 0, (
        f"This checkout lacks the commit {BASE}, from which databases are upgraded. Fetch the "
        f"whole history: git fetch --unshallow. ({archive.stderr.decode().strip()})"
    )
    tree = tmp_path_factory.mktemp("base")
    subprocess.run(["tar", "--extract"], cwd=tree, input=archive.stdout, check=True)
    for name in NOT_REQUIRED_ANY_MORE:
        (tree / name).mkdir()
        (tree / name / "__init__.py").touch()
    return tree


@pytest.fixture(scope="module")
def base(code_of_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The base, which does not serve yet, with a database that it has filled."""
    folder, port = tmp_path_factory.mktemp("upgraded"), free_port()
    environment = {**environment_of(folder, port), "WEB_CONCURRENCY": "1"}
    collect_static_files(environment)
    with prepared.database(folder) as url:
        environment["DATABASE_URL"] = url
        suite = {"DJANGO_SETTINGS_MODULE": "tests.settings", "TEST_DATABASE_URL": url}
        said = run_python({**environment, **suite}, "-c", FILL, root=code_of_base)
        seed = json.loads(next(line for line in said.splitlines() if line.startswith('{"card')))
        yield Server(
            f"http://{ADDRESS}:{port}", seed, environment, folder / "log", root=code_of_base
        )


@dataclass(frozen=True)
class Rows:
    columns: list[str]
    values: list[tuple[Any, ...]]


def rows(url: str, before: dict[str, Rows] | None = None) -> dict[str, Rows]:
    """The rows of each table of our apps; of those and the columns of ``before`` if it is given."""
    if url.startswith("sqlite"):
        connection: Any = sqlite3.connect(url.removeprefix("sqlite:///"))
        tables = "SELECT name FROM sqlite_master WHERE type = 'table'"
    else:
        connection = psycopg.connect(url)
        tables = "SELECT relname FROM pg_class WHERE relkind = 'r' AND pg_table_is_visible(oid)"
    found = {}
    with closing(connection):
        names = before or [name for (name,) in connection.execute(tables).fetchall()]
        for name in (name for name in names if name.startswith(APPS)):
            listed = ", ".join(before[name].columns) if before else "*"
            cursor = connection.execute(f"SELECT {listed} FROM {name}")  # noqa: S608 - known names
            columns = [each[0] for each in cursor.description]
            found[name] = Rows(columns, sorted(cursor.fetchall(), key=repr))
    return found


def table_of(found: dict[str, Rows], name: str) -> list[dict[str, Any]]:
    """The rows of a table, by column."""
    return [dict(zip(found[name].columns, row, strict=True)) for row in found[name].values]


def feed(server: Server, token: str) -> list[dict[str, Any]]:
    """The whole feed, as the reader of this token sees it."""
    path, found = f"{EVENTS}?limit=500", []
    while True:
        page = get(server, path, token)
        found += page["events"]
        if not page["more"]:
            return found
        path = f"{EVENTS}?limit=500&after={quote(page['next'])}"


def keeps(newer: Any, older: Any) -> bool:
    """Whether all that the older release answered is in the answer of the newer one."""
    if isinstance(older, dict):
        return all(name in newer and keeps(newer[name], older[name]) for name in older)
    if isinstance(older, list):
        return len(newer) == len(older) and all(map(keeps, newer, older))
    return bool(newer == older)


def accepted_by(server: Server, name: str) -> None:
    """The server accepts a signal of each kind of credential that the base has made."""
    seed = server.seed
    card = {"pair": seed["card"]["pair"], "direction": seed["card"]["direction"]}
    bot = seed["automation"]
    of_bot = {
        "botId": bot["botId"],
        "pair": bot["pair"],
        "direction": bot["direction"],
        "elected": True,
        "source": "tradingview",
        "nonce": f"{name}-bot",
    }
    push(server, fanout(**card, nonce=f"{name}-fanout"), seed["floorSecret"])
    push(server, nox(**card, action_id=f"act_{name}"), seed["noxSecret"])
    push(server, of_bot, bot["secret"])
    path = deploy_path(seed["desks"][0]["userId"])
    post(server, path, deploy(**card, nonce=f"{name}-deploy"), bearer(seed["platformToken"]))


def test_a_database_with_data_is_upgraded_while_both_releases_serve(base: Server) -> None:
    url, seed = base.environment["DATABASE_URL"], base.seed
    readers = (seed["platformToken"], *(desk["deskToken"] for desk in seed["desks"]))
    new = replace(base, root=ROOT)
    with guarded(base) as old:
        feeds = [feed(old, token) for token in readers]
        before = rows(url)
        assert {name for name, table in before.items() if not table.values} == EMPTY
        manage(new, "migrate", "--no-input")
        migrated = rows(url)
        after = rows(url, before)
        assert {name for name in before if after[name] != before[name]} == QUEUED
        assert not any(after[name].values for name in QUEUED)
        accepted_by(old, "old")
        with serving_beside(new) as beside:
            for server in (old, beside):
                assert httpx2.get(f"{server.base_url}/readyz", trust_env=False).json()["ready"]
            accepted_by(beside, "new")
            accepted_by(old, "old-again")
            for token, history in zip(readers, feeds, strict=True):
                read, read_by_old = feed(beside, token), feed(old, token)
                assert keeps(read[: len(history)], history)
                assert len(read) == len(read_by_old) > len(history)
                assert keeps(read, read_by_old)
            for desk in seed["desks"]:
                path = f"{DESKS}/{desk['userId']}"
                by_old, by_new = (get(each, path, readers[0]) for each in (old, beside))
                assert keeps(by_new, by_old)
    notices, messages = (table_of(before, name) for name in ("desks_notice", "signals_chatmessage"))
    [chat] = table_of(before, "signals_chat")
    not_shared = [
        row for row in notices if row["user_id"] == chat["user_id"] and not row["is_shared"]
    ]
    moved = Counter(row["channel"] for row in table_of(migrated, "desks_queuednotice"))
    assert moved == {"mail": len(notices), chat["service"]: len(messages) + len(not_shared)}
    for release in (new, base):
        assert "Every promise holds" in manage(release, "audit")

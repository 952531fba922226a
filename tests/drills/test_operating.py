"""The commands of deploy/OPERATING.md: set-up, upgrade, back-up, restore, rotation."""

import json
import os
import shutil
import subprocess
import threading
import time
from contextlib import contextmanager
from functools import partial
from secrets import token_hex

import httpx2
import pytest

from tests.client import EVENTS, HOOK, JSON, TOKENS, bearer, signed, written
from tests.drills.clients import push_of
from tests.drills.layout import NAME, NGINX
from tests.drills.machine import PORTS, blocks, machine
from tests.drills.stage import in_drills, needs_servers, wait_until
from tests.server import ADDRESS, KEYS, LIMITS, ROOT

pytestmark = [
    pytest.mark.processes,
    pytest.mark.once,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    needs_servers,
    pytest.mark.skipif(NGINX is None, reason="nginx is missing"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is missing"),
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is no checkout"),
]

FIRST, SECOND = "0.1.0", "0.2.0"
WEBS = PORTS[:2]
# A release later: a table whose foreign key refers to one of today.
LATER = """

class Later(models.Model):
    owner = models.ForeignKey("desks.User", models.CASCADE)
"""
OTHER_NAME = "other.example"
WITHOUT_LIMITS = "".join(f"LIMIT_{name}=off\n" for name in LIMITS)
# The next use of each token is recorded, as if a minute had passed.
FORGET_USE = "from tokens.models import Token; Token.objects.update(last_used_at=None)"


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A repository with this release."""
    folder = tmp_path_factory.mktemp("repository")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    git(folder, "init", "--quiet")
    commit(folder, FIRST)
    return folder


@pytest.fixture(scope="module")
def next_release(repository):
    """The repository, with a release that adds a table."""
    with (repository / "signals" / "models.py").open("a") as models:
        models.write(f"\nfrom django.db import models  # noqa: E402\n{LATER}")
    (repository / ".venv").symlink_to(ROOT / ".venv")
    subprocess.run(
        [".venv/bin/python", "manage.py", "makemigrations", "signals", "--name", "later"],
        cwd=repository,
        env={"DEBUG": "on", "ENV_FILE": "/dev/null", "PATH": "/usr/bin:/bin"},
        check=True,
        capture_output=True,
    )
    commit(repository, SECOND)
    return repository


def git(folder, *arguments):
    name = ["-c", "user.name=Somebody", "-c", "user.email=somebody@signals.example"]
    subprocess.run(["git", *name, *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder, tag):
    git(folder, "add", "--all")
    git(folder, "rm", "--quiet", "--cached", "--ignore-unmatch", ".venv")
    git(folder, "commit", "--quiet", "--message", tag)
    git(folder, "tag", tag)


@pytest.fixture(scope="module")
def here(repository):
    """A machine on which the first release was set up."""
    with machine() as here:
        prepare(here)
        here.run("units: database")
        install(here, FIRST, repository)
        here.seed = json.loads(manage(here, "seed --desks=2 --json"))
        here.run("units: settings", "units: certificate", "units: start")
        wait_until_ready(here)
        yield here


def prepare(here):
    """Writes the settings, and the certificate where certbot puts it."""
    keys = "".join(f"{name}={token_hex(32)}\n" for name in KEYS)
    host = f"{ADDRESS}:{here.postgresql.port}"
    passfile = here.at("/etc/signals/pgpass")
    passfile.write_text(f"{ADDRESS}:*:*:signals:the-password\n")
    passfile.chmod(0o600)
    here.at("/etc/signals/environment").write_text(
        f"{keys}{WITHOUT_LIMITS}BASE_URL=https://{NAME}\nTRUSTED_PROXIES=1\nWEB_CONCURRENCY=1\n"
        f"DATABASE_URL=postgres://signals@{host}/signals?passfile={passfile}\n"
    )
    for name in (NAME, OTHER_NAME):
        certificate(here.at(f"/etc/letsencrypt/live/{name}"), name)


def certificate(folder, name):
    folder.mkdir(parents=True)
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}"]
    files = ["-keyout", folder / "privkey.pem", "-out", folder / "fullchain.pem"]
    subprocess.run([*command, *files], check=True, capture_output=True)


def install(here, release, repository):
    given = {"RELEASE": release, "REPOSITORY": str(repository)}
    here.run("units: settings", "units: install", **given)


def manage(here, command):
    settings = blocks()["units: settings"]
    return here.shell(f"{settings}cd /srv/signals\n.venv/bin/python manage.py {command}")


# --- What clients see, at one of the web servers --------------------------------------------------

FORWARDED = {"Host": NAME, "X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.1"}


def ask(here, path, token="", port=WEBS[0]):
    url = f"http://{ADDRESS}:{here.ports[port]}{path}"
    headers = {**FORWARDED, **(bearer(token) if token else {})}
    return httpx2.get(url, headers=headers, trust_env=False, timeout=60)


def is_ready(here, port):
    try:
        return ask(here, "/readyz", port=port).is_success
    except httpx2.TransportError:
        return False


def wait_until_ready(here):
    """For the units that a block has started. ``units: restart`` waits by itself."""
    for port in PORTS:
        wait_until(partial(is_ready, here, port), f"the server at {port}")


def a_signal(here):
    return written(push_of(here.seed["automation"]))


def push(here, body):
    """Sends a bot's signal, again while the machine is too busy. Returns the status."""
    statuses = []

    def is_taken():
        statuses.append(push_once(here, body, WEBS[0]))
        return statuses[-1] != 503

    wait_until(is_taken, "a server that takes a signal")
    return statuses[-1]


def push_once(here, body, port):
    """Sends a bot's signal. Returns the status."""
    secret = here.seed["automation"]["secret"]
    headers = {**FORWARDED, **signed(secret, body=body), "Content-Type": JSON}
    url = f"http://{ADDRESS}:{here.ports[port]}{HOOK}"
    return httpx2.post(url, content=body, headers=headers, trust_env=False, timeout=60).status_code


def read(here, cursor):
    """The code of a refusal, or the number of events."""
    answer = ask(here, f"{EVENTS}?after={cursor}", here.seed["readToken"]).json()
    return answer["code"] if "code" in answer else len(answer["events"])


def tail(here):
    """The cursor behind the newest event, and its position."""
    page = ask(here, f"{EVENTS}?order=desc&limit=1", here.seed["readToken"]).json()
    return page["next"], page["events"][0]["position"]


class Load(threading.Thread):
    """Sends signals to one web server or, if that does not answer, to the other, as nginx does."""

    def __init__(self, here):
        super().__init__(daemon=True)
        self.here, self.over, self.statuses = here, threading.Event(), []

    def run(self):
        while not self.over.wait(0.05):
            self.statuses.append(self.send())

    def send(self):
        for port in WEBS:
            try:
                return push_once(self.here, a_signal(self.here), port)
            except httpx2.TransportError:
                continue
        return "nobody answers"


@contextmanager
def under_load(here):
    """503 is the answer of a machine that is too busy, not of an upgrade."""
    load = Load(here)
    load.start()
    try:
        yield
    finally:
        load.over.set()
        load.join()
    assert {200} <= set(load.statuses) <= {200, 503}


# --- PostgreSQL -----------------------------------------------------------------------------------


def databases(here):
    query = "SELECT datname FROM pg_database WHERE datname LIKE 'signals%'"
    return {name for (name,) in here.postgresql.execute(query)}


def schema(here, database="signals"):
    """The name of every constraint and index. PostgreSQL writes their texts anew when it dumps."""
    query = """SELECT conrelid::regclass || ' ' || conname FROM pg_constraint
        UNION ALL SELECT indexname FROM pg_indexes WHERE schemaname = 'public'"""
    return {line for (line,) in here.postgresql.execute(query, database)}


# --- The commands ---------------------------------------------------------------------------------


def test_every_block_is_run_by_a_test():
    files = ("test_operating.py", "cluster.py", "cluster_archive.py", "cluster_faults.py")
    source = "".join((ROOT / "tests" / "drills" / file).read_text() for file in files)
    assert [name for name in blocks() if f'"{name}"' not in source] == []


def test_the_set_up_serves_a_release_under_its_name(here):
    assert all(ask(here, "/readyz", port=port).json()["ready"] for port in PORTS)
    assert push(here, a_signal(here)) == 200
    webs, live = [here.ports[port] for port in WEBS], here.ports[PORTS[2]]
    started = {f"signals-web@{port}" for port in webs} | {f"signals-live@{live}", "signals-deliver"}
    assert here.running.keys() == started
    assert here.enabled == started | {"signals-daily.timer"}
    assert f"server_name {NAME};" in here.at("/etc/nginx/nginx.conf").read_text()


def test_a_desk_is_opened_for_a_user_whom_a_command_made(here):
    manage(here, "createsuperuser --no-input --email name@example.com")
    here.run("units: settings", "units: desk")


def test_a_back_up_is_tried_out_beside_the_service(here):
    back_up(here)
    assert "Every promise holds" in here.run("units: settings", "units: try")
    assert databases(here) == {"signals"}
    assert push(here, a_signal(here)) == 200


def test_the_audit_goes_on_where_it_ended(here):
    assert "proved before" not in here.run("units: settings", "units: audit")
    assert push(here, a_signal(here)) == 200
    said = here.run("units: settings", "units: audit")
    assert "Every promise holds" in said
    assert "proved before" in said


def back_up(here):
    here.shell("rm -f /var/lib/signals/*\nsystemctl start signals-daily")


@in_drills
def test_after_an_upgrade_a_back_up_of_the_release_before_is_restored_whole(here, next_release):
    kept = a_signal(here)
    assert push(here, kept) == 200
    back_up(here)
    with under_load(here):
        upgrade(here, next_release)
    later = schema(here)
    assert any("signals_later" in line for line in later)
    seen, lost = tail(here)
    restored = here.run("units: settings", "units: loss")
    assert "Every promise holds" in restored
    wait_until_ready(here)
    assert schema(here) == later == schema(here, "signals_before")
    assert push(here, kept) == 409
    assert read(here, seen) == "cursor_lost"
    while tail(here)[1] <= lost:  # another history, beyond the same position
        assert push(here, a_signal(here)) == 200
    assert read(here, seen) == "cursor_lost"
    assert read(here, tail(here)[0]) == 0
    here.postgresql.execute("DROP DATABASE signals_before WITH (FORCE)")
    here.run("units: settings", "units: back", "units: restart", BEFORE=FIRST)
    assert releases(here) == {FIRST}
    assert push(here, a_signal(here)) == 200


def upgrade(here, repository):
    install(here, SECOND, repository)
    assert releases(here) == {FIRST}
    here.run("units: settings", "units: restart")
    assert releases(here) == {SECOND}
    here.run("units: start", "units: nginx")


def releases(here):
    """The releases whose code runs."""
    folders = {os.readlink(f"/proc/{unit.pid}/cwd") for unit in here.running.values()}
    return {folder.rpartition("-")[2] for folder in folders}


def test_a_restore_goes_into_a_new_database_only_and_leaves_no_half_of_one(here):
    """And with other keys than the back-up's it does not succeed."""
    back_up(here)
    other = f"export TOKEN_KEYS={token_hex(32)} SECRET_KEYS={token_hex(32)}\n"
    restore = f"{blocks()['units: settings']}{other}/srv/signals/deploy/restore.sh"
    create = "runuser -u postgres -- createdb --owner=signals --template=template0 signals_restored"
    (dump,) = here.at("/var/lib/signals").iterdir()
    before = schema(here)
    assert "own database" in here.shell(f"{restore} {dump} signals", status=2)
    half = here.folder / "half.dump"
    half.write_bytes(dump.read_bytes()[:-1000])
    here.shell(create)
    assert "Do not serve" in here.shell(f"{restore} {half}", status=1)
    assert not any("signals_" in line for line in schema(here, "signals_restored"))
    assert "Do not serve" in here.shell(f"{restore} {dump}", status=1)
    assert "not empty" in here.shell(f"{restore} {dump}", status=2)
    assert schema(here, "signals_restored") == schema(here) == before
    here.postgresql.execute("DROP DATABASE signals_restored")


@in_drills
@pytest.mark.skipif(shutil.which("pgbackrest") is None, reason="pgbackrest is missing")
def test_a_mistake_is_undone_to_a_point_in_time(here):
    """Somebody deletes the bots' secrets. What came before is kept, and what came after is gone."""
    here.run("units: archive")
    # A back-up has the settings of ALTER SYSTEM. No standby follows the copy.
    here.postgresql.execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
    here.shell("runuser -u postgres -- pgbackrest --stanza=signals --type=full backup")
    here.postgresql.execute(WITHOUT_STANDBY)
    began = int(time.time())  # pgBackRest restores to no point in the back-up's own second
    wait_until(lambda: time.time() >= began + 1, "the second after the back-up")
    kept, lost = a_signal(here), a_signal(here)
    assert push(here, kept) == 200
    seen_before, _ = tail(here)
    ((before,),) = here.postgresql.execute("SELECT clock_timestamp()::text")
    here.postgresql.execute("DELETE FROM tokens_signingsecret", "signals")
    assert push(here, lost) == 401
    said = here.run("units: settings", "units: point", TIME=f'"{before}"')
    assert "Every promise holds" in said
    here.postgresql.execute(WITHOUT_STANDBY)
    here.postgresql.execute("SELECT pg_reload_conf()")
    wait_until_ready(here)
    assert push(here, kept) == 409
    assert push(here, lost) == 200
    assert read(here, seen_before) == "cursor_lost"
    assert here.postgresql.execute("SHOW archive_mode") == [("on",)]


WITHOUT_STANDBY = "ALTER SYSTEM RESET synchronous_standby_names"


@in_drills
def test_the_keys_rotate_without_a_refusal(here):
    def step(name):
        here.run("settings", name)
        with under_load(here):
            here.run("units: settings", "units: restart")

    old = keys(here)
    step("append")
    assert {name: value.split(",")[0] for name, value in keys(here).items()} == old
    step("first")
    assert "used" in here.run("units: settings", "units: move", status=1)
    use_each_token(here)
    here.run("units: settings", "units: move")
    step("drop")
    assert not set(keys(here).values()) & set(old.values())
    assert {len(value) for value in keys(here).values()} == {64}
    assert {ask(here, TOKENS, token).status_code for token in tokens(here)} == {200}
    assert "Every promise holds" in manage(here, "audit")


def use_each_token(here):
    """Uses the tokens until each has its new digest. It waits while somebody else writes."""
    while on_old_keys(here):
        manage(here, f"shell --no-imports --command='{FORGET_USE}'")
        for token in tokens(here):
            assert ask(here, TOKENS, token).status_code == 200


def on_old_keys(here):
    report = manage(here, "rotate_keys --json || true").splitlines()[0]
    return json.loads(report)["tokensOnOldKeys"]


def keys(here):
    lines = here.at("/etc/signals/environment").read_text().splitlines()
    settings = dict(line.split("=", 1) for line in lines)
    return {name: settings[name] for name in KEYS}


def tokens(here):
    return [here.seed["platformToken"], here.seed["readToken"]] + [
        desk["deskToken"] for desk in here.seed["desks"]
    ]


@in_drills
def test_the_commands_for_containers_name_what_there_is_and_restore_a_back_up(here, next_release):
    """What containers run is run here, on the database of the units. None is built or started."""
    service = "signals-web@8001 signals-web@8002 signals-live@8010 signals-deliver"
    here.postgresql.execute("ALTER ROLE signals SUPERUSER")  # as the image of PostgreSQL makes it
    here.shell(f"git clone --quiet --branch {FIRST} {next_release} containers")
    here.shell("make -C containers .venv/base")
    here.at("/srv/container").write_text(
        "set -a\n"
        + "".join(f"{name}={value}\n" for name, value in keys(here).items())
        + f"BASE_URL=https://{OTHER_NAME}\n"
        + f"DATABASE_URL=postgres://signals@{ADDRESS}:{here.postgresql.port}/signals\n"
    )
    here.run("containers: files", PUBLIC_NAME=OTHER_NAME)
    here.run("containers: upgrade", RELEASE=SECOND)
    here.run("containers: back-up")
    assert "Every promise holds" in here.run("containers: try")
    here.shell(f"systemctl stop {service}")
    assert "Every promise holds" in here.run("containers: loss")
    assert databases(here) == {"signals", "signals_before"}
    here.run("containers: restart", "containers: move")
    here.shell(f"systemctl start {service}")
    wait_until_ready(here)
    here.postgresql.execute("DROP DATABASE signals_before")
    folder = here.at("/srv/containers/deploy")
    assert f"server_name {OTHER_NAME};" in (folder / "nginx.conf").read_text()
    assert (folder / "tls" / "key.pem").stat().st_mode & 0o077 == 0

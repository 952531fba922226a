"""Runs the back-up commands of the handbook: dump, restore and audit."""

import os
import re
import shutil
import subprocess
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.db import connection

from config.environment import ROOT
from events.models import Head
from tests.client import EVENTS, code, get, push
from tests.factories import a_bot, a_card, a_desk, a_platform_token, a_ready_desk
from tests.signals.bodies import fanout, tradingview

SPENT = fanout()
HANDBOOK = (ROOT / "deploy" / "OPERATING.md").read_text()

pytestmark = [
    pytest.mark.processes,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif("connection.vendor != 'postgresql'", reason="pg_dump needs PostgreSQL"),
    pytest.mark.skipif(shutil.which("pg_dump") is None, reason="pg_dump is missing"),
]


def commands(name):
    """The commands of the handbook's block with this name."""
    return re.search(rf"```sh {name}\n(.+?)```", HANDBOOK, re.DOTALL).group(1)


@pytest.fixture
def handbook(tmp_path):
    """Runs a block of the handbook as an operator would, in an empty folder."""
    (tmp_path / "manage.py").symlink_to(ROOT / "manage.py")
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    url = urlsplit(os.environ["TEST_DATABASE_URL"])
    here, there = (
        url._replace(path=f"/{connection.settings_dict['NAME']}{suffix}").geturl()
        for suffix in ("", "_restored")
    )
    environment = {
        **{name: os.environ[name] for name in ("PATH", "SECRET_KEY", "TOKEN_KEYS", "SECRET_KEYS")},
        "ENV_FILE": os.devnull,
        "PYTHONPATH": str(ROOT),
        "DATABASE_URL": here,
        "RESTORED": there,
    }

    def run(name):
        connection.close()
        script = ["sh", "-euc", commands(name)]
        done = subprocess.run(script, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    yield run
    run_sql(f"DROP DATABASE IF EXISTS {urlsplit(there).path[1:]} WITH (FORCE)")


def run_sql(statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)


@contextmanager
def on_the_restored():
    """Connects this test to the restored database."""
    name = settings.DATABASES["default"]["NAME"]
    connection.close()
    connection.settings_dict["NAME"] = f"{name}_restored"
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict["NAME"] = name


def a_story():
    """A platform token and a bot, after a signal of each."""
    engine, desk = a_platform_token(), a_ready_desk(a_card())
    bot = a_bot(desk)
    push(SPENT, engine)
    push(tradingview(bot), secret=bot.secret)
    return engine, bot


def test_a_restore_is_whole_and_after_one_that_lost_events_no_older_cursor_is_believed(handbook):
    engine, bot = a_story()
    cursor = get(f"{EVENTS}?limit=3", engine).json()["next"]
    missed = get(f"{EVENTS}?after={cursor}", engine).json()
    assert "Every promise holds" in handbook("try")
    with on_the_restored():
        assert get(f"{EVENTS}?after={cursor}", engine).json() == missed
        assert code(push(SPENT, engine)) == "nonce_used"
        assert push(tradingview(bot), secret=bot.secret).status_code == 200

    a_desk()  # lost by the restore that follows
    seen, lost = tail(engine)
    assert "Every promise holds" in handbook("lost")
    assert Head.objects.get().position == lost - 1
    assert code(get(f"{EVENTS}?after={seen}", engine)) == "cursor_lost"
    push(fanout(), engine)  # another history, up to the same position
    now, head = tail(engine)
    assert head == lost
    assert code(get(f"{EVENTS}?after={seen}", engine)) == "cursor_lost"
    assert code(get(f"{EVENTS}?after={now}", engine)) == "ok"


def tail(engine):
    """The cursor behind the newest event, and its position."""
    page = get(f"{EVENTS}?order=desc&limit=1", engine).json()
    return page["next"], page["events"][0]["position"]

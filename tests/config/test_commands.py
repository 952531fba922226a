"""A command that cannot run reports why in one sentence, with exit status 2."""

import gc
import os
import runpy
import subprocess
import sys

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from config.environment import ROOT
from tests.config.test_settings import KEYS, environment

pytestmark = [pytest.mark.once, pytest.mark.processes]

COMMANDS = [
    ["audit"],
    ["new_epoch"],
    ["rotate_keys"],
    ["seed", "--desks", "1"],
]
SENTENCE = "This database is not migrated. Run manage.py migrate first."
NOBODY = "postgres://name:hunter2@127.0.0.1:1/signals"


def run(command, database):
    given = environment(**KEYS, DATABASE_URL=database)
    done = subprocess.run(
        [sys.executable, "manage.py", *command], cwd=ROOT, env=given, capture_output=True, text=True
    )
    return done.returncode, done.stderr.splitlines()


def test_a_database_that_is_not_migrated(tmp_path):
    status, said = run(["audit"], f"sqlite:///{tmp_path / 'empty.sqlite3'}")
    assert (status, said) == (2, [f"CommandError: {SENTENCE}"])


@pytest.mark.django_db
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_each_command_needs_a_database_that_is_migrated(command):
    MigrationRecorder(connection).flush()
    with pytest.raises(CommandError) as ended:
        call_command(*command)
    assert (str(ended.value), ended.value.returncode) == (SENTENCE, 2)


def test_a_database_that_is_away():
    status, said = run(["migrate"], NOBODY)
    (sentence,) = [line for line in said if not line.startswith("{")]  # what the pool logs
    assert (status, "The database is unavailable: " in sentence) == (2, True)
    assert "hunter2" not in "".join(said)


def test_a_command_uses_the_settings_that_its_option_names():
    status, said = run(["check", "--settings=no.such"], NOBODY)
    assert (status, said[-1]) == (1, "ModuleNotFoundError: No module named 'no'")


def test_a_command_collects_garbage_but_looks_at_nothing_that_was_loaded(monkeypatch, capsys):
    script = "import gc; print(gc.isenabled(), gc.get_freeze_count() > 0)"
    monkeypatch.setattr(sys, "argv", ["manage.py", "shell", "--no-imports", "-c", script])
    monkeypatch.setattr(os, "umask", lambda mask: None)
    gc.unfreeze()
    runpy.run_path(str(ROOT / "manage.py"), run_name="__main__")
    assert capsys.readouterr().out == "True True\n"

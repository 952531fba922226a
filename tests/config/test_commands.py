"""A command that cannot run reports why in one sentence, with exit status 2."""

import os
import secrets
import subprocess
import sys

import pytest

from config.environment import ROOT

pytestmark = [pytest.mark.once, pytest.mark.processes]

COMMANDS = [
    ["audit"],
    ["new_epoch"],
    ["rotate_keys"],
    ["seed", "--desks", "1"],
]
NOBODY = "postgres://name:hunter2@127.0.0.1:1/signals"


def run(command, database):
    key = secrets.token_hex(32)
    keys = dict.fromkeys(("SECRET_KEY", "TOKEN_KEYS", "SECRET_KEYS"), key)
    given = {"PATH": os.environ["PATH"], "ENV_FILE": os.devnull, "DATABASE_URL": database, **keys}
    done = subprocess.run(
        [sys.executable, "manage.py", *command], cwd=ROOT, env=given, capture_output=True, text=True
    )
    return done.returncode, done.stderr.splitlines()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_database_that_is_not_migrated(command, tmp_path):
    status, said = run(command, f"sqlite:///{tmp_path / 'empty.sqlite3'}")
    sentence = "CommandError: This database is not migrated. Run manage.py migrate first."
    assert (status, said) == (2, [sentence])


@pytest.mark.parametrize("command", [["audit"], ["migrate"]], ids=lambda command: command[0])
def test_a_database_that_is_away(command):
    status, said = run(command, NOBODY)
    (sentence,) = [line for line in said if not line.startswith("{")]  # what the pool logs
    assert (status, "The database is unavailable: " in sentence) == (2, True)
    assert "hunter2" not in "".join(said)

"""Only the owner can read the service's files, whatever umask it starts with."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connection

from config.environment import ROOT
from events import writer_queue
from tests.config.test_settings import KEYS, environment
from tests.drills.layout import listeners

pytestmark = [pytest.mark.once, pytest.mark.processes]

OWNER_ONLY = 0o077


def others_may(file: Path) -> bool:
    return bool(stat.S_IMODE(file.stat().st_mode) & OWNER_ONLY)


def test_what_is_written_is_its_owners_alone(tmp_path):
    """The file of the database, made by a real command."""
    given = environment(**KEYS, DATABASE_URL=f"sqlite:///{tmp_path / 'service.sqlite3'}")
    command = (sys.executable, "manage.py", "createcachetable")
    line = ["sh", "-c", 'umask 0 && exec "$@"', "sh", *command]
    subprocess.run(line, cwd=ROOT, env=given, check=True, capture_output=True)
    assert (tmp_path / "service.sqlite3").stat().st_size
    assert not [file for file in tmp_path.iterdir() if others_may(file)]


def test_what_the_server_writes_is_too(web):
    masks = {mask_of(pid) for pid in listeners(int(web.environment["PORT"]))}
    static = [*Path(web.environment["STATIC_ROOT"]).rglob("*.css")]
    assert masks == {OWNER_ONLY}
    assert static
    assert all(file.stat().st_mode & stat.S_IROTH for file in static), "those are everybody's"


def mask_of(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(dict(line.split(":\t", 1) for line in lines)["Umask"], 8)


def test_the_queues_file_is_its_owners_alone(tmp_path, monkeypatch):
    """Anyone who can open the file could hold its lock and block every writer."""
    monkeypatch.setitem(connection.settings_dict, "NAME", str(tmp_path / "service.sqlite3"))
    before = os.umask(0)
    try:
        with writer_queue._file_queue(timeout=0):
            assert not others_may(tmp_path / "service.sqlite3.queue")
    finally:
        os.umask(before)

"""The wheel of the engine's client: it holds the client, whole, and says truly what it needs.

``tests/config/test_readme.py`` installs it with pip and runs an engine with it.
"""

import base64
import csv
import hashlib
import io
import tomllib
import zipfile
from email import message_from_bytes

import pytest

from signals.contract.wheel import FILE, VERSION, wheel
from tests.client import get
from tests.server import ROOT

pytestmark = [pytest.mark.django_db, pytest.mark.once]

ABOUT = f"signals_client-{VERSION}.dist-info"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture
def files():
    answer = get(f"/client/{FILE}")
    assert (answer.status_code, answer["Content-Type"]) == (200, "application/octet-stream")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_it_has_every_file_of_the_client_and_their_digests(files):
    for source in (ROOT / "signals" / "client").glob("*.py"):
        assert files[f"signals_client/{source.name}"] == source.read_bytes()
    record = {name: rest for name, *rest in csv.reader(files[f"{ABOUT}/RECORD"].decode().split())}
    assert record.keys() == files.keys()
    assert record.pop(f"{ABOUT}/RECORD") == ["", ""]
    for name, (digest, size) in record.items():
        made = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).decode()
        assert (digest, size) == (f"sha256={made.rstrip('=')}", str(len(files[name])))


def test_it_has_the_version_of_the_service_and_its_needs_of_python_and_httpx2(files):
    said = message_from_bytes(files[f"{ABOUT}/METADATA"])
    assert said["Version"] == PROJECT["version"]
    assert said["Requires-Python"] == PROJECT["requires-python"]
    assert said["Requires-Dist"] in PROJECT["dependencies"]


def test_every_process_serves_the_same_bytes():
    assert wheel.__wrapped__() == wheel()

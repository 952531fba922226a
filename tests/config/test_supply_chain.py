"""Every requirement is pinned and checked against its hashes."""

import re

import pytest

from config.environment import ROOT

pytestmark = pytest.mark.once

PINNED = re.compile(r"[a-z0-9._-]+(\[[a-z0-9,-]+\])?==[^ ;]+( ; .+)?")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")
PATRONI = "../deploy/cluster/requirements.txt"
FILES = ["base.txt", "telemetry.txt", "dev.txt", PATRONI]


def requirements(name: str) -> list[tuple[str, list[str]]]:
    """Returns each requirement of a file with its hashes."""
    text = (ROOT / "requirements" / name).read_text().replace("\\\n", " ")
    lines = [line.split("#")[0].strip() for line in text.splitlines()]
    split = [line.partition(" --hash") for line in lines if line]
    return [(named.strip(), f"{mark}{rest}".split()) for named, mark, rest in split]


@pytest.mark.parametrize("name", FILES)
def test_every_requirement_is_pinned_and_has_hashes(name):
    found = requirements(name)
    assert len(found) >= 20
    for requirement, hashes in found:
        assert PINNED.fullmatch(requirement), requirement
        assert hashes, requirement
        assert all(HASH.fullmatch(text) for text in hashes), requirement


@pytest.mark.parametrize("name", FILES)
def test_no_requirement_comes_from_an_address_or_another_index(name):
    text = (ROOT / "requirements" / name).read_text()
    assert not re.findall(r"://|^-|--(?:extra-)?index-url|--find-links| @ ", text, re.MULTILINE)


@pytest.mark.parametrize("name", ["base.txt", "telemetry.txt"])
def test_the_service_and_its_tests_stand_on_the_same_versions(name):
    tested = {
        re.sub(r"\[.*?\]| ;.*", "", named): hashes for named, hashes in requirements("dev.txt")
    }
    for named, hashes in requirements(name):
        assert tested[re.sub(r"\[.*?\]| ;.*", "", named)] == hashes


def test_nothing_is_installed_whose_hash_is_not_there():
    recipe = (ROOT / "Makefile").read_text()
    assert re.search(r"^PIP := .*--require-hashes", recipe, re.MULTILINE)
    installed = re.findall(
        r"^\t@?\S*(?:\$\(PIP\)|pip) .*(?:install )?-r (\S+)", recipe, re.MULTILINE
    )
    assert installed == [
        "requirements/pip.txt",
        "requirements/base.txt",
        "requirements/dev.txt",
        "deploy/cluster/requirements.txt",
    ]
    assert recipe.count("--require-hashes") == 2  # PIP, and Patroni's

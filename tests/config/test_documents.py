"""The documents for contributors name only files, links, commands and targets that exist."""

import re
from pathlib import Path

import pytest

from config.environment import ROOT

pytestmark = pytest.mark.once

ARCHITECTURE = "docs/architecture.md"
DOCUMENTS = [ARCHITECTURE, "CONTRIBUTING.md", "tests/README.md"]
FENCED = re.compile(r"```.*?```", re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w.-]*(?:/[\w.-]+)*/?")  # a folder ends with a slash
SUFFIXES = (".py", ".md", ".html", ".toml", ".txt", ".conf", ".yaml", ".lua")
PLAIN_NAMES = {"Makefile", ".env.example"}
APPS = ("events", "desks", "tokens", "signals", "config")


def text_of(document: str) -> str:
    return FENCED.sub("", (ROOT / document).read_text())


def is_path(code: str) -> bool:
    named = code in PLAIN_NAMES or code.endswith(SUFFIXES)
    folder = code.endswith("/") and not code.startswith("/")
    return PATH.fullmatch(code) is not None and (named or folder)


def sections(document: str) -> list[tuple[str, str]]:
    """Each section with the folder that its heading names, or the document's own folder."""
    own = str(Path(document).parent)
    parts = re.split(r"^#+ (.+)$", text_of(document), flags=re.MULTILINE)
    found = [(own, parts[0])]
    for heading, text in zip(parts[1::2], parts[2::2], strict=True):
        named = CODE.fullmatch(heading)
        found.append((named.group(1) if named else own, text))
    return found


def names_nothing(folder: str, path: str) -> bool:
    """Whether a path exists neither in the repository's root, nor in the folder, nor anywhere."""
    if (ROOT / path).exists() or (ROOT / folder / path).exists():
        return False
    # "`receive.py`" after "`signals/intake/receive.py`", and "`api/views.py` of its app".
    depth = path.rstrip("/").count("/")
    return depth > 1 or not any(
        found for app in (*APPS, "tests") for found in (ROOT / app).rglob(path.rstrip("/"))
    )


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_path_that_it_names_exists(document):
    named = [
        (folder, code)
        for folder, text in sections(document)
        for code in CODE.findall(text)
        if is_path(code)
    ]
    assert named
    assert [code for folder, code in named if names_nothing(folder, code)] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_leads_somewhere(document):
    headings = re.findall(r"^#+ (.+)$", text_of(document), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
    for target in re.findall(r"\]\(([^)]+)\)", text_of(document)):
        path, _, anchor = target.partition("#")
        if path:
            assert (ROOT / document).parent.joinpath(path).exists(), target
        else:
            assert anchor in anchors, target


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_make_target_that_it_names_exists(document):
    text = (ROOT / document).read_text()
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = re.findall(r"(?:^|`)make ([a-z]+)\b", text, re.MULTILINE)
    assert set(named) <= set(targets)

"""SECURITY.md and tests/GUARDS.md name tests that exist."""

import ast
import re

import pytest

from config.environment import ROOT

pytestmark = pytest.mark.once

TEXT = (ROOT / "SECURITY.md").read_text()
GUARDS = (ROOT / "tests/GUARDS.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::([\w:]+)`", TEXT + GUARDS)))


def names(path: str) -> set[str]:
    """The tests of a file: of a class as ``TestIt::test_this``."""
    found = set()
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{part.name}" for part in node.body if hasattr(part, "name")}
    return found


def test_each_test_that_they_name_is_there():
    assert len(NAMED) > 200
    there = {path: names(path) for path in {path for path, _ in NAMED}}
    assert [f"{path}::{name}" for path, name in NAMED if name not in there[path]] == []

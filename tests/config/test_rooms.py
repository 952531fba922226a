"""What the import linter does not see of the arrows between apps."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.apps import apps
from django.urls import URLPattern, URLResolver, get_resolver

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
LINTER = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
PURE = next(one for one in LINTER["contracts"] if one["name"] == "The rules are pure")
APPS = LINTER["root_packages"]  # each may know those after it
FILES = [path for app in APPS for path in (ROOT / app).rglob("*.py")]

BY_ROUTE = ("reverse", "reverse_lazy", "redirect", "resolve_url")
MODEL = re.compile(rf"(?:admin:)?({'|'.join(APPS)})[._]([A-Za-z]+)(?:_.*)?")


def test_the_pure_modules_import_no_framework():
    """The linter does not count what a package's ``__init__`` imports."""
    script = (
        "import sys, signals.law.rules, signals.law.signal_body\n"
        f"import {', '.join(PURE['source_modules'])}\n"
        f"print(sorted(sys.modules.keys() & set({PURE['forbidden_modules']!r})))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def routes(patterns) -> Iterator[tuple[str, str]]:
    """The name of each route outside of the control area, and the app of its view."""
    for pattern in patterns:
        if isinstance(pattern, URLPattern) and pattern.name:
            yield pattern.name, pattern.callback.__module__.partition(".")[0]
        elif isinstance(pattern, URLResolver) and not pattern.namespace:
            yield from routes(pattern.url_patterns)


def named_apps(source: str) -> Iterator[tuple[str, str]]:
    """The models and routes of our apps that strings name, each with the app of its code."""
    of_route = dict(routes(get_resolver().url_patterns))
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            match = MODEL.fullmatch(node.value)
            if match and (model := apps.all_models[match[1]].get(match[2].lower())):
                yield node.value, model.__module__.partition(".")[0]
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name in BY_ROUTE and of_route.get(str(node.args[0].value)) in APPS:
                yield str(node.args[0].value), of_route[str(node.args[0].value)]


def arrows_back(app: str, source: str) -> list[str]:
    return [name for name, other in named_apps(source) if APPS.index(other) < APPS.index(app)]


def test_no_string_names_a_model_or_a_route_of_an_app_above():
    found = {
        str(path): arrows_back(path.relative_to(ROOT).parts[0], path.read_text()) for path in FILES
    }
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "line",
    [
        'reverse("admin:tokens_signingsecret_changelist")',
        'f"admin:tokens_token_{name}"',
        '_related(row, secrets="tokens_signingsecret")',
        'apps.get_model("signals.Signal")',
        'redirect("bots")',
        'reverse("tokens")',
    ],
)
def test_an_arrow_back_is_found(line):
    assert len(arrows_back("desks", line)) == 1
    assert arrows_back("config", line) == []

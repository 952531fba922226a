"""Plants bugs one at a time in a copy of the service, and prints which ones no test sees.

``python -m tests.mutants [TEXT…]`` runs all of them, or those whose file or reason has a text.
``bugs.toml`` lists them. Each names a function (none: the whole file) and the text in it that is
replaced, and ``why`` it matters. A bug that no longer applies fails the run, so whoever changes the
function moves the bug along. ``tests`` are those that must see it. Without them, the unit tests
that import the module are run. ``database`` is what the tests need, if that is not SQLite:
the bug is left out unless the variable of ``DATABASES`` is set. ``survives`` says why nothing sees
a bug yet, and ``equivalent`` why nobody ever can.
"""

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Lock

import pytest

from tests.distribution import PAGES

ROOT = Path(__file__).parents[2]
LIMIT = 900  # seconds for the tests of one bug
UNIT = "not (processes or slow)"
DATABASES = {"postgresql": "TEST_DATABASE_URL", "redis": "TEST_REDIS_URL"}
ONE_AT_A_TIME = Lock()  # for tests that share a database
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Bug:
    file: str
    replaces: str
    by: str
    why: str
    function: str = ""  # Class.method, or a function within one as outer.inner
    tests: tuple[str, ...] = ()
    database: str = "sqlite"
    survives: str = ""
    equivalent: str = ""

    def plant(self, text: str) -> str:
        """The text of the module with the bug. Raises ``LookupError`` if it does not apply."""
        body = _source_of(text, self.function) if self.function else text
        if body.count(self.replaces) != 1:
            raise LookupError(f"{self.function} has the text {body.count(self.replaces)} times")
        planted = text.replace(body, body.replace(self.replaces, self.by), 1)
        if self.file.endswith(".py"):
            ast.parse(planted)
        return planted

    def test_files(self) -> list[list[str]]:
        """The tests to run: first those that see most bugs, then the others.

        Raises ``LookupError`` if there are none.
        """
        package, _, name = self.file.removesuffix(".py").replace("/", ".").rpartition(".")
        imports = re.compile(
            rf"^from {package} import .*\b{name}\b|^(?:from|import) {package}\.{name}\b", re.M
        )
        found = list(self.tests) or [
            str(path.relative_to(ROOT))
            for path in sorted((ROOT / "tests").rglob("test_*.py"))
            if imports.search(path.read_text())
        ]
        if missing := [test for test in found if not (ROOT / test.partition("::")[0]).exists()]:
            raise LookupError(f"there is no {missing[0]}")
        if not found:
            raise LookupError("no test imports the module: name its tests")
        folder = f"tests/{package.replace('.', '/')}/"
        near = self.tests or [path for path in found if path.endswith(f"/test_{name}.py")]
        near = list(near or [path for path in found if path.startswith(folder)])
        return [part for part in (near, [path for path in found if path not in near]) if part]


def _source_of(text: str, function: str) -> str:
    node: ast.AST = ast.parse(text)
    for name in function.split("."):
        inner = [each for each in ast.walk(node) if getattr(each, "name", "") == name]
        if len(inner) != 1:
            raise LookupError(f"{function} is there {len(inner)} times")
        node = inner[0]
    return "\n".join(text.split("\n")[node.lineno - 1 : node.end_lineno])  # type: ignore[attr-defined]


def copy_of_the_service(folder: Path) -> Path:
    named = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).split("\0")
    for name in filter(None, named):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def seen_by(bug: Bug, folder: Path) -> tuple[str, bool]:
    """The first test that fails with the bug, or nothing; and whether ``make quick`` runs it."""
    module = folder / bug.file
    text = module.read_text()
    module.write_text(bug.plant(text))
    try:
        for marks in (UNIT, f"not ({UNIT})") if bug.tests else (UNIT,):
            for files in bug.test_files():
                if failed := first_failure(bug, folder, ["-m", marks, *files]):
                    is_quick = marks == UNIT and not failed.startswith(PAGES)
                    return failed, is_quick and bug.database == "sqlite"
    finally:
        module.write_text(text)
    return "", False


def first_failure(bug: Bug, folder: Path, tests: list[str]) -> str:
    left_out = {name for needed, name in DATABASES.items() if needed != bug.database}
    environment = {name: text for name, text in os.environ.items() if name not in left_out}
    options = ["-q", "-x", "-n0", "-p", "no:cacheprovider", "-p", "no:randomly"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    with ONE_AT_A_TIME if bug.database in DATABASES else nullcontext():
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT
        )
    if failed := FAILED.search(done.stdout):
        return failed[1]
    if done.returncode not in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
        said = done.stdout[-500:] + done.stderr[-500:]
        raise RuntimeError(f"{bug.file} ({bug.why}): pytest failed. {said}")
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("texts", nargs="*", metavar="TEXT")
    parser.add_argument("--check", action="store_true", help="only whether each bug applies")
    parser.add_argument("-j", type=int, default=os.cpu_count(), help="how many bugs at once")
    given = parser.parse_args()
    listed = tomllib.loads(Path(__file__).with_name("bugs.toml").read_text())["bug"]
    bugs = [Bug(**{**each, "tests": tuple(each.get("tests", ()))}) for each in listed]
    bugs = [bug for bug in bugs if all(text in bug.file + bug.why for text in given.texts)]
    wrong = 0
    for bug in bugs:
        try:
            bug.plant((ROOT / bug.file).read_text()), bug.test_files()
        except (LookupError, OSError) as problem:
            wrong += 1
            print(f"does not apply: {bug.file} ({bug.why}): {problem}")
    if wrong or given.check:
        return bool(wrong)
    lacking = {needed for needed, name in DATABASES.items() if not os.environ.get(name)}
    for bug in [bug for bug in bugs if bug.database in lacking]:
        bugs.remove(bug)
        print(f"left out {bug.file}: {bug.why}\n         {DATABASES[bug.database]} is not set")
    with tempfile.TemporaryDirectory() as made:
        folders: SimpleQueue[Path] = SimpleQueue()
        for number in range(given.j):
            folders.put(copy_of_the_service(Path(made) / str(number)))

        def run(bug: Bug) -> tuple[Bug, str, bool]:
            folder = folders.get()
            try:
                return bug, *seen_by(bug, folder)
            finally:
                folders.put(folder)

        survivors, quick = [], 0
        with ThreadPoolExecutor(given.j) as threads:
            for ended in as_completed([threads.submit(run, bug) for bug in bugs]):
                bug, test, is_quick = ended.result()
                known = bug.survives or bug.equivalent
                print(f"{'seen    ' if test else 'SURVIVES'} {bug.file}: {bug.why}", flush=True)
                print(f"         {test or known or 'no test sees it'}", flush=True)
                survivors += [] if test else [bug]
                quick += is_quick
    more = [bug for bug in survivors if not (bug.survives or bug.equivalent)]
    print(
        f"{len(bugs)} bugs, {len(bugs) - len(survivors)} seen, {quick} of them by a test of "
        f"make quick; {len(more)} survive unexpectedly."
    )
    return bool(more)


if __name__ == "__main__":
    sys.exit(main())

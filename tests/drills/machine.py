"""A machine on which the commands of deploy/OPERATING.md run as they are written.

    with machine() as here:
        here.run("units: install", RELEASE="0.1.0", REPOSITORY=…)

PostgreSQL, the service's processes, nginx's check of its files, git, curl and openssl are real.
What this machine lacks has a stand-in of the same name on the PATH: ``systemctl`` starts the units'
commands as processes, ``docker`` runs a container's command here, ``runuser`` becomes the
database's superuser, and ``make`` links the requirements that are installed instead of downloading
them. The paths and ports of the document are replaced by others of this machine.
"""

import json
import os
import re
import shlex
import shutil
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.drills.layout import HERE, NGINX
from tests.drills.stage import Postgresql
from tests.server import ADDRESS, AS_INSTALLED, ROOT, free_port

HANDBOOK = ROOT / "deploy" / "OPERATING.md"
BLOCK = re.compile(r"^( *)```sh(?: ([^\n]+))?\n(.*?)^ *```$", re.M | re.S)
PORTS = ("8001", "8002", "8010")
CONFIGURED = ("cron.d", "nginx", "signals", "systemd/system")
STOPPING = 60  # seconds, more than TimeoutStopSec
SETPRIV = ("setpriv", "--pdeathsig=KILL")

# Sends the command to the test's process, which answers with the exit status and an error.
STAND_IN = f"""#!{sys.executable}
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as line:
    line.connect(os.environ["MACHINE"])
    line.sendall(json.dumps([os.path.basename(sys.argv[0]), *sys.argv[1:]]).encode() + b"\\n")
    status, error = json.loads(line.makefile().readline())
sys.stderr.write(error)
sys.exit(status)
"""
RUNUSER = """#!/bin/sh -e
[ "$1 $2 $3" = '-u postgres --' ]
shift 3
export PGUSER=postgres
[ "$(id -u)" != 0 ] || exec setpriv --reuid=postgres --regid=postgres --clear-groups "$@"
exec "$@"
"""
MAKE = f"""#!/bin/sh -e
[ "$1 $3" = '-C .venv/base' ]
grep --quiet '^.venv/base: requirements/base.txt' "$2/Makefile"
ln -s {ROOT / ".venv"} "$2/.venv"
"""
# ``docker compose exec`` and ``run``: the command of a container, with the settings of its service.
DOCKER = """#!/bin/bash -e
docker-stand-in "$@"
[ "$1" = compose ]
case "$2" in exec|run) ;; *) exit 0 ;; esac
shift 2
while [[ "$1" == -* ]]; do shift; done
service="$1"
shift
if [ "$service" = postgres ]; then PGUSER=postgres exec "$@"; fi
cd "$CHECKOUT"
. "$CONTAINER_SETTINGS"
PATH="$CHECKOUT/.venv/bin:$PATH" exec "$@"
"""


def blocks() -> dict[str, str]:
    """The shell blocks of the document by name, except those that say that they need a machine.

    Those install packages and create users, or wait for somebody to type.
    """
    found = [(name, lines) for _, name, lines in BLOCK.findall(HANDBOOK.read_text())]
    named = [(name, lines) for name, lines in found if name != "machine"]
    assert len({name for name, _ in named}) == len(named), "a name twice, or a block without one"
    return dict(named)


@dataclass(slots=True)
class Machine:
    """``units`` are the units as systemd knows them, since the last ``daemon-reload``.

    ``seed`` is the output of ``manage.py seed``.
    """

    folder: Path
    postgresql: Postgresql
    ports: dict[str, str]
    units: dict[str, str] = field(default_factory=dict)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    enabled: set[str] = field(default_factory=set)
    seed: dict[str, Any] = field(default_factory=dict)

    # --- What an operator types -------------------------------------------------------------------

    def run(self, *names: str, status: int = 0, **variables: str) -> str:
        """Runs blocks of the document in one shell. Returns what they print.

        ``variables`` replace the values of the operator's own choice at the beginning of a block.
        """
        # A shell with -e goes on after a list with && that failed.
        lines = "".join(f"{blocks()[name]}[ $? = 0 ] || exit 1\n" for name in names)
        for name, value in variables.items():
            pattern = rf'^( *|.* ){name}=("[^"]*"|\S+)'
            lines, count = re.subn(pattern, rf"\g<1>{name}={value}", lines, flags=re.M)
            assert count, f"{name} is in none of {names}"
        in_containers = all(name.startswith("containers") for name in names)
        return self.shell(lines, status, "/srv/containers/deploy" if in_containers else "/srv")

    def shell(self, lines: str, status: int = 0, folder: str = "/srv") -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.here(lines)],
            cwd=self.at(folder),
            env=self.environment(),
            capture_output=True,
            text=True,
        )
        assert done.returncode == status, f"{lines}\n{done.stdout}\n{done.stderr}{self.logs()}"
        return done.stdout + done.stderr

    def here(self, text: str) -> str:
        """Text of the document or of a unit, with the paths and ports of this machine."""
        for path in ("/srv/", "/etc/", "/var/lib/"):
            text = re.sub(rf"(?<![\w.]){path}", f"{self.folder}{path}", text)
        for theirs, ours in self.ports.items():
            text = text.replace(theirs, ours)
        return text

    def at(self, path: str) -> Path:
        return self.folder / path.removeprefix("/")

    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}:/usr/sbin",
            "HOME": str(self.folder),
            "MACHINE": str(self.folder / "socket"),
            "CHECKOUT": str(self.at("/srv/containers")),
            "CONTAINER_SETTINGS": str(self.at("/srv/container")),
            **AS_INSTALLED,
            "ENV_FILE": os.devnull,
            "PGHOST": ADDRESS,
            "PGPORT": str(self.postgresql.port),
            "PGBACKREST_CONFIG": str(self.at("/etc/pgbackrest.conf")),
        }

    def logs(self) -> str:
        return "".join(log.read_text()[-3000:] for log in self.folder.glob("log/*"))

    # --- What stands in for systemd, docker and nginx ---------------------------------------------

    def obey(self, command: Sequence[str]) -> tuple[int, str]:
        """Carries out a command of a stand-in. Returns its exit status and error."""
        program, *arguments = command
        try:
            means: dict[str, Callable[..., None]] = {
                "systemctl": self._systemctl,
                "docker-stand-in": self._docker,
                "nginx": self._nginx,
            }
            means[program](*arguments)
        except Exception as fault:  # the shell that asked is told
            return 1, f"{program}: {fault!r}\n"
        return 0, ""

    def _systemctl(self, verb: str, *names: str) -> None:
        if verb == "daemon-reload":
            files = self.at("/etc/systemd/system").iterdir()
            self.units = {file.name: self.here(file.read_text()) for file in files}
            return
        names = tuple(name for name in names if name != "--now")
        for name in names:
            self._tell_unit(verb, name)

    def _tell_unit(self, verb: str, name: str) -> None:
        if name == "nginx":
            assert verb == "reload"
            return
        if name == "postgresql":
            if verb in ("stop", "restart"):
                self.postgresql.end(signal.SIGINT)
            if verb in ("start", "restart"):
                self.postgresql.start()
            return
        lines = self._unit(name)
        if verb == "enable":
            assert "[Install]" in lines
            self.enabled.add(name)
        assert verb in ("enable", "start", "stop", "restart"), verb
        if verb in ("stop", "restart"):
            self.end(name)
        if verb != "stop" and name not in self.running and not name.endswith(".timer"):
            self._start(name, lines)

    def _unit(self, name: str) -> str:
        full = name if "." in name else f"{name}.service"
        template, at, instance = full.removesuffix(".service").partition("@")
        if at:
            return self.units[f"{template}@.service"].replace("%i", instance)
        return self.units[full]

    def _start(self, name: str, lines: str) -> None:
        (folder,) = re.findall("^WorkingDirectory=(.+)$", lines, re.M)
        (file,) = re.findall("^EnvironmentFile=(.+)$", lines, re.M)
        given = (
            Path(file).read_text().split()
            + " ".join(re.findall("^Environment=(.+)$", lines, re.M)).split()
        )
        environment = {
            **self.environment(),
            **dict(setting.split("=", 1) for setting in given),
        }
        commands = re.findall("^ExecStart=(.+)$", lines, re.M)
        with (self.folder / "log" / name).open("ab") as log:
            for command in commands:
                running = subprocess.Popen(
                    [*SETPRIV, *shlex.split(command.replace("%%", "%"))],
                    cwd=folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
                if "Type=oneshot" in lines:
                    assert running.wait() == 0, command
                else:
                    self.running[name] = running

    def end(self, name: str, number: int = signal.SIGTERM) -> None:
        if running := self.running.pop(name, None):
            running.send_signal(number)
            running.wait(STOPPING)

    def _docker(self, tool: str, verb: str, *arguments: str) -> None:
        """Checks that the services are those of compose.yaml."""
        services = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
        named = [word for word in arguments if not word.startswith("-")]
        if verb in ("exec", "run"):
            named = named[:1]
        assert tool == "compose"
        assert verb in ("build", "exec", "restart", "run", "stop", "up"), verb
        assert set(named) <= services.keys(), named

    def _nginx(self, option: str) -> None:
        """Checks the installed files, with paths and ports at which any user may listen."""
        assert option == "-t"
        installed, folder = self.at("/etc/nginx"), self.folder / "nginx"
        shutil.copytree(installed, folder, dirs_exist_ok=True)
        for file in folder.glob("*.conf"):
            text = file.read_text()
            for theirs, ours in HERE.items():
                text = text.replace(theirs, ours)
            text = re.sub(r"listen (80|443)\b", lambda at: f"listen {10_000 + int(at[1])}", text)
            file.write_text(text)
        command = [str(NGINX), "-t", "-p", str(folder), "-c", str(folder / "nginx.conf")]
        checked = subprocess.run(command, capture_output=True, text=True)
        assert checked.returncode == 0, checked.stderr


@contextmanager
def machine() -> Iterator[Machine]:
    """A machine with PostgreSQL and no service yet."""
    with tempfile.TemporaryDirectory() as name, _prepared(Path(name)) as here:
        yield here


@contextmanager
def _prepared(folder: Path) -> Iterator[Machine]:
    for name in ("bin", "srv", "log", *(f"etc/{name}" for name in CONFIGURED)):
        (folder / name).mkdir(parents=True)
    for name in ("signals", "pgbackrest", "postgresql/15"):
        (folder / "var/lib" / name).mkdir(parents=True)
    folder.chmod(0o755)  # PostgreSQL runs as another user
    of_postgresql = [folder / "var/lib/pgbackrest", database := folder / "var/lib/postgresql/15"]
    if os.geteuid() == 0:
        for place in of_postgresql:
            shutil.chown(place, "postgres", "postgres")
    archive = {**os.environ, "PGBACKREST_CONFIG": str(folder / "etc/pgbackrest.conf")}
    postgresql = Postgresql(database, folder / "log" / "postgresql", "main", env=archive)
    ports = {port: str(free_port()) for port in (*PORTS, "5439")}
    here = Machine(folder, postgresql, {**ports, "5432": str(postgresql.port)})
    scripts = {"runuser": RUNUSER, "make": MAKE, "docker": DOCKER}
    scripts |= dict.fromkeys(("systemctl", "docker-stand-in", "nginx"), STAND_IN)
    for name, script in scripts.items():
        (folder / "bin" / name).write_text(script)
        (folder / "bin" / name).chmod(0o755)
    postgresql.start()
    try:
        with _listening(here):
            yield here
    finally:
        for name in [*here.running]:
            here.end(name)
        postgresql.stop()


@contextmanager
def _listening(here: Machine) -> Iterator[None]:
    """Obeys the stand-ins, in one thread: with it the processes that it started would end."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            answer: Any = here.obey(json.loads(self.rfile.readline()))
            self.wfile.write(json.dumps(answer).encode() + b"\n")

    with socketserver.UnixStreamServer(str(here.folder / "socket"), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            for name in [*here.running]:
                here.end(name)
            server.shutdown()
            thread.join()

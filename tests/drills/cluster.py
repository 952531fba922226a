"""Three machines with PostgreSQL under Patroni and etcd, as deploy/OPERATING.md sets them up.

    with cluster() as database:
        database.machine(database.leader()).kill()

A machine is a process with a network, a process table, a host name and a file system of its own: it
sees this machine's files, and keeps what it writes in /etc, /srv, /var/lib and PostgreSQL's folder
for itself. Killing that process ends everything on the machine at once. The machines are joined by
a bridge that leads nowhere else. All of it ends with the process that started it. It needs root.
"""

import fcntl
import os
import re
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from shutil import which
from typing import Any

import httpx2
import psycopg
import pytest

from tests.drills.machine import HANDBOOK, blocks
from tests.drills.stage import MISSING as SERVERS_MISSING
from tests.drills.stage import Process, wait_until
from tests.server import ROOT

BRIDGE, NETWORK = "signals0", "10.77.0"
LOCK = Path("/run/lock/signals-cluster")
NAMES = ("db1", "db2", "db3")
FILES = ROOT / "deploy" / "cluster"
PATRONI = Path(os.environ.get("PATRONI", ROOT / ".venv" / "patroni"))
OVERLAID = ("/etc", "/srv", "/usr/lib/postgresql", "/var/lib")
UNITS = {
    "etcd": ("/lib/systemd/system/etcd.service", "/etc/systemd/system/etcd.service.d/signals.conf"),
    "patroni": ("/etc/systemd/system/patroni.service",),
}
ETCD_PORTS = (2379, 2380)
# What Patroni is told to do.
COMMANDS = (
    "POST failover",
    "POST failsafe",
    "POST reinitialize",
    "POST reload",
    "POST restart",
    "POST sigterm",
    "POST switchover",
    "DELETE restart",
    "DELETE switchover",
    "PATCH config",
    "PUT config",
)
ASKING = 2  # seconds for an answer of Patroni
PACE = 0.2  # seconds between two questions to it

# The first process: it mounts, says so, and then only waits for the processes whose parents ended.
INIT = """
for place in {places}; do
    mkdir --parents "{folder}/above$place" "{folder}/work$place"
    kept="upperdir={folder}/above$place,workdir={folder}/work$place"
    mount -t overlay overlay -o "lowerdir=$place,$kept" "$place"
done
mount -t tmpfs tmpfs /run && install --directory --owner=postgres /run/postgresql
hostname {name}
printf '127.0.0.1 localhost\n{hosts}' >/etc/hosts
for bound in {bound}; do
    mkdir --parents "/srv/${{bound%%=*}}" && mount --bind "${{bound#*=}}" "/srv/${{bound%%=*}}"
done
echo mounted
while :; do sleep 3600 & wait $!; done
"""
INNER = ("unshare", "--net", "--pid", "--mount", "--uts", "--fork", "--kill-child", "--mount-proc")


def missing() -> str:
    """What this machine lacks for a cluster, as a sentence; empty if it lacks nothing."""
    packages = {"etcd": "etcd-server", "ip": "iproute2"}
    lacks = [package for program, package in packages.items() if not which(program)]
    lacks += SERVERS_MISSING
    if not (PATRONI / "bin" / "patroni").exists():
        lacks.append(f"Patroni in {PATRONI} (make .venv/patroni)")
    if os.geteuid():
        lacks.append("root, for networks and mounts of its own")
    return f"The cluster needs {', '.join(lacks)}." if lacks else ""


class Unit(Process):
    """A service of a machine. The process that was started enters the machine; its child serves."""

    @property
    def pid(self) -> int:
        pid = super().pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())


class Machine:
    """One of the three. ``folder`` keeps what it writes, so it can be started again."""

    def __init__(self, number: int, folder: Path) -> None:
        self.name, self.address = NAMES[number], f"{NETWORK}.{11 + number}"
        self.folder = folder / self.name
        self.folder.mkdir()
        self.units: dict[str, Unit] = {}
        self._link = f"{BRIDGE}-{self.name}"
        self._first: subprocess.Popen[str]

    def start(self) -> None:
        """Starts the machine, without its units."""
        hosts = "".join(f"{NETWORK}.{11 + at} {name}\\n" for at, name in enumerate(NAMES))
        bound = {"cluster": FILES, "patroni": PATRONI}
        script = INIT.format(
            places=" ".join(OVERLAID),
            folder=self.folder,
            name=self.name,
            hosts=hosts,
            bound=" ".join(f"{name}={path}" for name, path in bound.items()),
        )
        self._first = subprocess.Popen(
            ["setpriv", "--pdeathsig=KILL", *INNER, "bash", "-euc", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C must not reach it
        )
        assert self._first.stdout
        assert self._first.stdout.readline() == "mounted\n"
        inside = self._inside()
        _ip(f"link add {self._link} type veth peer name eth0 netns {inside}")
        _ip(f"link set {self._link} master {BRIDGE} up")
        self.shell(
            f"ip address add {self.address}/24 dev eth0; ip link set eth0 up; ip link set lo up"
        )

    def set_up(self, secrets: str = "") -> str:
        """Sets the node up with the lines of the document. Returns its passwords and certificate.

        The first node makes them. The others get a copy.
        """
        if secrets:
            self.shell("base64 --decode | tar --extract --directory=/etc", input=secrets)
        else:
            self.shell(blocks()["cluster: passwords"] + blocks()["cluster: certificate"])
        self.shell(blocks()["cluster: node"])
        return self.shell("tar --create --directory=/etc patroni | base64")

    def start_units(self) -> None:
        for name in UNITS:
            self.start_unit(name)

    def start_unit(self, name: str) -> None:
        """Starts a unit as systemd would: its command, settings and user."""
        lines = self.shell(f"cat {' '.join(UNITS[name])}").replace("%H", self.name)
        settings = " ".join(re.findall("^Environment=(.*)$", lines, re.M)).split()
        command = re.findall("^ExecStart=(.*)$", lines, re.M)[0].replace("$DAEMON_ARGS", "")
        (user,) = re.findall("^User=(.*)$", lines, re.M)
        environment = dict(setting.split("=", 1) for setting in settings)
        self.units[name] = Unit(
            [
                *self._enter(),
                *("setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--"),
                *shlex.split(command),
            ],
            self.folder / name,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", **environment},
            start_new_session=True,
        )
        self.units[name].start()

    def shell(self, lines: str, **options: Any) -> str:
        """Runs lines on the machine, as root. Returns what they print."""
        done = subprocess.run(
            [*self._enter(), "bash", "-euo", "pipefail", "-c", f"{STAND_INS}{lines}"],
            capture_output=True,
            text=True,
            **options,
        )
        assert done.returncode == 0, f"{lines}\n{done.stdout}\n{done.stderr}{self.logs()}"
        return done.stdout

    def cut(self) -> None:
        """Cuts the machine off the network, which drops its packets silently."""
        _ip(f"link set {self._link} nomaster")

    def mend(self) -> None:
        _ip(f"link set {self._link} master {BRIDGE}")

    def kill(self) -> None:
        """As if its power failed: no connection is closed."""
        self.cut()
        self._first.kill()
        self._first.wait()
        for unit in self.units.values():
            wait_until(unit.has_ended, "the end of a machine")
        # Connections that nobody answers any more keep the network alive for minutes.
        _ip(f"link delete {self._link}")

    def logs(self) -> str:
        files = [self.folder / name for name in UNITS]
        return "".join(file.read_text()[-3000:] for file in files if file.exists())

    def _inside(self) -> str:
        pid = self._first.pid
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().strip()

    def entrance(self) -> str:
        """The command that begins a shell on the machine."""
        return shlex.join(self._enter())

    def _enter(self) -> list[str]:
        inside = self._inside()
        return ["nsenter", f"--target={inside}", "--all", "--wd=/srv"]


# There is no systemd on the machines. Their units are started as it would start them. And there is
# no later release of PostgreSQL: the same programs are installed anew, with the next number.
STAND_INS = r"""
systemctl() { :; }
apt() {
    local now=$(/usr/lib/postgresql/15/bin/postgres --version | sed -E 's/.* 15\.([0-9]+) .*/\1/')
    LC_ALL=C find /usr/lib/postgresql/15 -type f -exec \
        sed --in-place "s/15\.$now (Debian/15.$((now + 1)) (Debian/g" {} +
}
"""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Three machines. ``url`` is the service's database at whichever of them is the primary."""

    machines: tuple[Machine, ...]
    url: str

    def machine(self, name: str) -> Machine:
        return next(machine for machine in self.machines if machine.name == name)

    def standbys(self) -> list[Machine]:
        leader = self.leader()
        return [machine for machine in self.machines if machine.name != leader]

    def leader(self) -> str:
        """The name of the primary."""
        (leader,) = [member["name"] for member in self.members() if member["role"] == "leader"]
        return leader

    def members(self) -> list[dict[str, Any]]:
        """The nodes as Patroni knows them; none if no node answers."""
        for machine in self.machines:
            with suppress(httpx2.HTTPError):
                url = f"http://{machine.address}:8008/cluster"
                answer = httpx2.get(url, timeout=ASKING, trust_env=False)
                members: list[dict[str, Any]] = answer.json()["members"]
                return members
        return []

    def wait_for_another(self, leader: str) -> float:
        """Waits until another node than ``leader`` is the primary."""

        def is_there() -> bool:
            time.sleep(PACE)
            leaders = [member["name"] for member in self.members() if member["role"] == "leader"]
            return bool(leaders) and leader not in leaders

        return wait_until(is_there, "another primary")

    def wait_until_whole(self) -> float:
        """Waits until there are a primary and two standbys, each of which keeps every COMMIT."""
        return wait_until(self._is_whole, "the cluster")

    def _is_whole(self) -> bool:
        time.sleep(PACE)
        states = sorted((member["role"], member["state"]) for member in self.members())
        return states == [
            ("leader", "running"),
            ("quorum_standby", "streaming"),
            ("quorum_standby", "streaming"),
        ]


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A cluster with an empty database of the service, until the block ends."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="signals-cluster-")))
        folder.chmod(0o755)  # the machines' programs run as other users
        stack.enter_context(_bridge())
        machines = tuple(Machine(number, folder) for number in range(len(NAMES)))
        secrets = ""
        for machine in machines:
            machine.start()
            stack.callback(machine.kill)
            secrets = machine.set_up(secrets)
        for machine in machines:
            machine.start_units()
        hosts = ",".join(f"{machine.address}:5432" for machine in machines)
        (options,) = re.findall(r"(target_session_attrs=\S+)&passfile", HANDBOOK.read_text())
        url = f"postgres://signals:the-password@{hosts}/signals?{options}"
        made = Cluster(machines, url)
        made.wait_until_whole()
        primary = made.machine(made.leader())
        assert "Quorum Standby" in primary.shell(blocks()["cluster: list"])
        primary.shell(blocks()["units: database"])
        _check_that_only_the_service_connects(made)
        _check_that_only_nodes_choose_the_primary(made)
        yield made


def _check_that_only_the_service_connects(database: Cluster) -> None:
    """From the network, that is. Nodes among themselves are asked for a password."""
    for machine in database.machines:
        for user, refused in {
            "postgres": "no pg_hba.conf entry",
            "somebody": "no pg_hba.conf entry",
            "replicator": "no pg_hba.conf entry",  # for a database
            "signals": "password",
        }.items():
            asked = f"host={machine.address} user={user} dbname=postgres"
            with pytest.raises(psycopg.OperationalError, match=refused):
                psycopg.connect(asked)


def _check_that_only_nodes_choose_the_primary(database: Cluster) -> None:
    """Patroni changes nothing without the password, and etcd talks to the nodes' certificate."""
    options: Any = {"timeout": ASKING, "trust_env": False, "verify": False}
    for machine in database.machines:
        for command in COMMANDS:
            method, path = command.split()
            url = f"http://{machine.address}:8008/{path}"
            answer = httpx2.request(method, url, json={}, **options)
            assert answer.status_code == httpx2.codes.UNAUTHORIZED, f"{command}: {answer}"
        for scheme, port in product(("http", "https"), ETCD_PORTS):
            with pytest.raises(httpx2.TransportError):
                httpx2.get(f"{scheme}://{machine.address}:{port}/version", **options)


@contextmanager
def _bridge() -> Iterator[None]:
    """The network of the machines, and of this one."""
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one cluster at a time
        for left in (BRIDGE, *(f"{BRIDGE}-{name}" for name in NAMES)):
            if Path(f"/sys/class/net/{left}").exists():  # its cluster was killed
                _ip(f"link delete {left}")
        # With its own address: otherwise it takes that of its first machine, and loses it with it.
        _ip(f"link add name {BRIDGE} address 02:00:00:00:77:01 type bridge")
        try:
            _ip(f"address add {NETWORK}.1/24 dev {BRIDGE}")
            _ip(f"link set {BRIDGE} up")
            yield
        finally:
            _ip(f"link delete {BRIDGE}")


def _ip(arguments: str) -> None:
    done = subprocess.run(["ip", *arguments.split()], capture_output=True, text=True)
    assert done.returncode == 0, f"ip {arguments}: {done.stderr}"

"""The deployment files work as they are."""

import os
import re
import secrets
import shlex
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import redis
import yaml

from config.environment import ROOT
from events.http.refusals import Refused
from tests.server import free_port

pytestmark = [pytest.mark.processes, pytest.mark.once]

DEPLOY = ROOT / "deploy"
UNITS = (
    "signals-web@8001.service",
    "signals-live@8010.service",
    "signals-deliver.service",
    "signals-daily.service",
    "signals-daily.timer",
)
# Where nginx speaks of something else than a body, or cannot say that nothing was done.
SAID_OTHERWISE = {"malformed", "internal", "unavailable"}


# --- systemd --------------------------------------------------------------------------------------


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="not run for lack of systemd")
@pytest.mark.parametrize("unit", UNITS)
def test_systemd_finds_nothing_wrong_with_the_units(unit, tmp_path):
    for file in (DEPLOY / "systemd").iterdir():
        (tmp_path / file.name).write_text(file.read_text().replace("/srv/signals", str(ROOT)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", tmp_path / unit],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


SERVICES = [unit for unit in UNITS if unit.endswith(".service")]


def unit_of(name):
    return (DEPLOY / "systemd" / re.sub(r"@\d+", "@", name)).read_text()


def test_every_unit_has_the_same_sandbox_and_limits_of_its_own():
    sandbox = re.compile(r"^NoNewPrivileges=.*?(?=\n\n|\Z)", re.M | re.S)
    assert len({sandbox.search(unit_of(name)).group().strip() for name in SERVICES}) == 1
    for name in SERVICES:
        assert re.search(r"^MemoryMax=\d+[GM]\nTasksMax=\d+$", unit_of(name), re.M), name


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="not run for lack of systemd")
@pytest.mark.parametrize("unit", SERVICES)
def test_systemd_calls_the_units_safe(unit, tmp_path):
    """Below 2.0 of 10. What is left is the network, which each of them needs."""
    (tmp_path / unit).write_text(unit_of(unit))
    rate = ["systemd-analyze", "security", "--offline=yes", "--threshold=20", tmp_path / unit]
    done = subprocess.run(rate, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


# --- The back-up, of the unit and of the containers -----------------------------------------------

PASSFILE = re.compile(r"^DATABASE_URL=(postgres.+)$", re.M)
DAY = "2026-11-29"
# Stands in for pg_dump, and for the docker that runs it: shows its arguments, and writes something.
PG_DUMP = """#!/bin/sh
printf '%s\\n' "$@"
for word; do case "$word" in --file=*) echo new > "${word#--file=}";; esac; done
exit $STATUS
"""


def back_up(folder, layout="units", status=0, address=""):
    """Runs the command of a layout on this day, with a pg_dump that exits with ``status``."""
    if layout == "units":
        (line,) = re.findall(r"^ExecStart=(.+pg_dump.+)$", unit_of("signals-daily.service"), re.M)
        line = line.replace("%%", "%").replace("/var/lib/signals", str(folder))
        command = shlex.split(line)
    else:
        handbook = (DEPLOY / "OPERATING.md").read_text()
        lines = re.search(r"^```sh containers: back-up\n(.+?)^```", handbook, re.M | re.S)
        command = ["bash", "-c", lines.group(1)]
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    stand_ins = {"pg_dump": PG_DUMP, "docker": PG_DUMP, "date": f"#!/bin/sh\necho {DAY}\n"}
    for name, text in stand_ins.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    done = subprocess.run(
        command,
        env={"PATH": path, "DATABASE_URL": address, "STATUS": str(status)},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == status, done.stderr
    return done.stdout


def test_the_back_up_shows_no_password_in_its_arguments(tmp_path):
    """Runs the unit's command, with the database address from OPERATING.md."""
    (address,) = PASSFILE.findall((DEPLOY / "OPERATING.md").read_text())
    parts = urlsplit(address)
    assert (parts.password, parse_qs(parts.query)) == (None, {"passfile": ["/etc/signals/pgpass"]})
    assert back_up(tmp_path, address=address).splitlines()[-1] == address


@pytest.mark.parametrize("layout", ["units", "containers"])
def test_a_second_back_up_of_a_day_takes_the_place_of_the_first_only_if_it_is_whole(
    tmp_path, layout
):
    dump = tmp_path / f"{DAY}.dump"
    dump.write_text("first")
    back_up(tmp_path, layout, status=1)
    assert (dump.read_text(), list(tmp_path.glob("*.dump"))) == ("first", [dump])
    back_up(tmp_path, layout)
    assert "first" not in dump.read_text()
    assert {file.name for file in tmp_path.iterdir()} == {"bin", dump.name}


# --- Containers -----------------------------------------------------------------------------------


@pytest.fixture
def compose():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def test_no_container_takes_clients_whose_address_docker_hides(compose):
    """The networks have IPv4 only: Docker would give all clients with IPv6 one address, its own."""
    assert not any((net or {}).get("enable_ipv6") for net in compose["networks"].values())
    published = [port for each in compose["services"].values() for port in each.get("ports", [])]
    assert published == ["0.0.0.0:80:80", "0.0.0.0:443:443"]


def test_the_containers_of_nginx_have_every_file_that_its_configuration_reads(compose):
    mounts = [volume.split(":") for volume in compose["services"]["nginx"]["volumes"]]
    inside = {target.removeprefix("/etc/signals/"): source for source, target, _ in mounts}
    text = "".join((DEPLOY / name).read_text() for name in ("nginx.conf", "service.conf"))
    read = set(re.findall(r"^ *include ([^;]+);", text, re.M))
    assert inside.keys() == {"nginx.conf", "tls", *read}
    assert all((DEPLOY / inside[name]).is_file() for name in ("nginx.conf", *read))


def test_every_container_is_confined_and_has_limits(compose):
    nothing = {"read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"]}
    for name, service in compose["services"].items():
        assert nothing.items() <= service.items(), name
        assert {"mem_limit", "pids_limit"} <= service.keys(), name
    assert [name for name, of in compose["services"].items() if "cap_add" in of] == ["nginx"]


def test_nginx_writes_to_nothing_but_memory(compose):
    text = (DEPLOY / "nginx.conf").read_text()
    written = re.findall(r"^ *(?:pid|proxy_cache_path|proxy_temp_path) (/[^ ;]+)", text, re.M)
    assert len(written) == 3
    folders = [folder.partition(":")[0] for folder in compose["services"]["nginx"]["tmpfs"]]
    assert all(any(path.startswith(folder) for folder in folders) for path in written)


def test_nginx_reaches_neither_postgresql_nor_redis(compose):
    networks = {name: set(of["networks"]) for name, of in compose["services"].items()}
    assert networks["nginx"] & networks["web1"]
    for kept in ("postgres", "redis"):
        assert networks[kept] & networks["web1"]
        assert not networks["nginx"] & networks[kept]


def test_the_sessions_that_are_over_are_cleared_in_both_layouts(compose):
    unit = (DEPLOY / "systemd" / "signals-daily.service").read_text()
    assert "manage.py clearsessions" in unit
    assert "manage.py clearsessions" in compose["services"]["daily"]["command"][-1]


@pytest.mark.skipif(not shutil.which("redis-server"), reason="not run for lack of redis-server")
def test_redis_asks_for_its_password_and_shows_it_to_nobody(compose):
    """Runs the container's command, on a free port."""
    service, port, password = compose["services"]["redis"], free_port(), secrets.token_hex(16)
    shell, option, script = service["command"]
    here = f"redis-server - --port {port} --bind 127.0.0.1"
    command = [shell, option, script.replace("$$", "$").replace("redis-server -", here)]
    given = {"PATH": os.environ["PATH"], "REDIS_PASSWORD": password}
    with subprocess.Popen(command, env=given, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert any("Ready to accept connections" in line for line in server.stdout)
            with pytest.raises(redis.AuthenticationError):
                redis.Redis(port=port).ping()
            chosen = compose["services"]["web1"]["environment"]
            for name, scheme in (("LIMITS_URL", "redis"), ("CACHE_URL", "rediscache")):
                address = chosen[name].replace("${REDIS_PASSWORD:?is not set}", password)
                address = address.replace("redis:6379", f"127.0.0.1:{port}", 1)
                plain = address.replace(scheme, "redis", 1)
                assert redis.Redis.from_url(plain).ping()
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                    assert password.encode() not in file.read_bytes()
        finally:
            server.terminate()
            assert server.wait(60) == 0  # Redis itself was told to stop, not a shell around it


def test_nginx_asks_the_servers_that_there_are(compose):
    text = (DEPLOY / "web.compose.conf").read_text()
    asked = re.findall(r"server (\w+):8000", text)
    assert asked == [name for name in compose["services"] if name.startswith("web")]
    ((live, port),) = re.findall(r"server (\w+):(\d+)", text.partition("upstream live")[2])
    assert port == compose["services"][live]["environment"]["LIVE_PORT"]
    asked.append(live)
    hosts = compose["services"]["web1"]["environment"]["ALLOWED_HOSTS"].split(",")
    assert {"localhost", *asked} <= set(hosts)


def test_the_two_ways_to_deploy_differ_in_the_addresses_alone():
    servers = re.compile(r"server \S+")
    texts = [(DEPLOY / name).read_text() for name in ("web.conf", "web.compose.conf")]
    assert len({servers.sub("server", text) for text in texts}) == 1


# --- nginx ----------------------------------------------------------------------------------------


def mapped(variable):
    """Returns the map of one variable in refusals.conf."""
    text = (DEPLOY / "refusals.conf").read_text()
    block = re.search(rf"^map \S+ \${variable} {{\n(.*?)^}}", text, re.M | re.S).group(1)
    return dict(re.findall(r'^ +(\w+) "?(.*?)"?;$', block, re.M))


def test_nginx_refuses_in_the_services_own_words():
    refusals = {refusal.code: refusal for refusal in Refused.registry()}
    codes, titles, details = mapped("code"), mapped("title"), mapped("detail")
    assert codes == {str(refusals[code].status): code for code in codes.values()}
    assert titles == {code: refusals[code].title for code in codes.values()}
    assert details.keys() == titles.keys()
    assert {c: d for c, d in details.items() if d != refusals[c].detail}.keys() == SAID_OTHERWISE

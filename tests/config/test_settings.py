"""Valid and invalid settings (contract, section 8)."""

import json
import os
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from unittest import mock

import pytest
from django.core.exceptions import ImproperlyConfigured

from config.environment import ROOT
from tests.server import AS_INSTALLED

pytestmark = pytest.mark.once

KEY = "5e" * 31 + "a1"
OTHER_KEY = "c0" * 31 + "de"
KEYS = {"SECRET_KEY": KEY, "TOKEN_KEYS": KEY, "SECRET_KEYS": KEY}
READ_BY = [f"config/{name}.py" for name in ("environment", "settings")]


def environment(**settings):
    """A machine's environment with these settings, and no .env."""
    return {"PATH": os.environ["PATH"], **AS_INSTALLED, "ENV_FILE": os.devnull, **settings}


def run(command, given):
    return subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True)


def read():
    """The settings, read again."""
    spec = spec_from_file_location("config.settings", ROOT / "config" / "settings.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)


def look(names, **settings):
    """Reads the settings again in an environment with these only. Returns the values of some."""
    with mock.patch.dict(os.environ, environment(**settings), clear=True):
        found = read()
    return json.loads(json.dumps({name: found[name] for name in names.split()}, default=repr))


def refusal(**settings):
    """The sentence with which a process of these settings does not start."""
    with pytest.raises(ImproperlyConfigured) as refused:
        look("DEBUG", **settings)
    return str(refused.value)


@pytest.mark.parametrize("missing", KEYS)
def test_it_does_not_start_without_a_key(missing):
    given = {name: key for name, key in KEYS.items() if name != missing}
    assert refusal(**given) == f"{missing} is not set. See .env.example for its meaning."


def test_the_stand_in_of_development_is_no_secret_key():
    stand_in = look("SECRET_KEY", DEBUG="on")["SECRET_KEY"]
    assert refusal(**{**KEYS, "SECRET_KEY": stand_in}).startswith("SECRET_KEY is not set")
    both = {**KEYS, "SECRET_KEY": f"{KEY},{stand_in}"}
    assert refusal(**both).startswith("SECRET_KEY holds a stand-in")


def test_the_first_secret_key_signs_and_the_others_verify():
    found = look("SECRET_KEY SECRET_KEY_FALLBACKS", **{**KEYS, "SECRET_KEY": f"{OTHER_KEY},{KEY}"})
    assert found == {"SECRET_KEY": OTHER_KEY, "SECRET_KEY_FALLBACKS": [KEY]}


def test_keys_stay_in_their_order():
    found = look("TOKEN_KEYS", **{**KEYS, "TOKEN_KEYS": f"{OTHER_KEY},{KEY}"})
    assert found == {"TOKEN_KEYS": [repr(bytes.fromhex(key)) for key in (OTHER_KEY, KEY)]}


def test_with_debug_it_starts_without_any():
    assert look("DEBUG", DEBUG="on") == {"DEBUG": True}


@pytest.mark.parametrize(
    "reachable",
    [
        {"BASE_URL": "https://signals.example"},
        {"HOST": "192.0.2.1"},
        {"HOST": "::", "TRUSTED_PROXIES": "1"},
        {"TRUSTED_PROXIES": "1"},
    ],
)
def test_it_is_closed_by_default(reachable):
    names = "DEBUG REQUIRE_HTTPS REQUIRE_STAFF_MFA SESSION_COOKIE_SECURE CSRF_COOKIE_SECURE"
    assert list(look(names, **KEYS, **reachable).values()) == [False, True, True, True, True]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_where_only_this_machine_can_connect_plain_http_is_served(host):
    names = "REQUIRE_HTTPS SECURE_SSL_REDIRECT SESSION_COOKIE_SECURE REQUIRE_STAFF_MFA BASE_URL"
    found = look(names, **KEYS, HOST=host, PORT="8301")
    assert list(found.values()) == [False, False, False, True, "http://localhost:8301"]


def test_only_the_host_of_the_base_address_is_served():
    found = look("ALLOWED_HOSTS", BASE_URL="https://signals.example:8443", **KEYS)
    assert found == {"ALLOWED_HOSTS": ["signals.example"]}


@pytest.mark.parametrize("given", [{"BASE_URL": "http://[::1]:8301"}, {"ALLOWED_HOSTS": "::1"}])
def test_a_host_of_ipv6_is_served(settings, client, given):
    settings.ALLOWED_HOSTS = look("ALLOWED_HOSTS", **KEYS, **given)["ALLOWED_HOSTS"]
    assert client.get("/healthz", headers={"host": "[::1]:8301"}).status_code == 200
    assert client.get("/healthz", headers={"host": "[::2]:8301"}).status_code == 400


@pytest.mark.parametrize("text", ["off", "false", "No", "0"])
def test_a_switch_is_off_in_each_of_its_spellings(text):
    assert look("REQUIRE_HTTPS", REQUIRE_HTTPS=text, **KEYS) == {"REQUIRE_HTTPS": False}


def test_a_limit_may_be_off():
    assert look("LIMITS", LIMIT_READS="off", **KEYS)["LIMITS"]["reads"] == "off"


def test_what_the_address_of_the_database_asks_for_stands():
    address = "postgres://name@host/signals?sslmode=require"
    options = look("DATABASES", DATABASE_URL=address, **KEYS)["DATABASES"]["default"]["OPTIONS"]
    assert options["sslmode"] == "require"
    assert "lock_timeout=1500ms" in options["options"]


def test_the_environment_wins_over_the_file(tmp_path):
    file = tmp_path / "env"
    file.write_text(f"SECRET_KEY={KEY}\nTOKEN_KEYS={KEY}\nSECRET_KEYS={KEY}\nTHREADS=3\nPORT=1\n")
    assert look("THREADS", ENV_FILE=str(file)) == {"THREADS": 3}
    assert look("THREADS", ENV_FILE=str(file), THREADS="4") == {"THREADS": 4}


@pytest.mark.processes
@pytest.mark.parametrize(
    "command",
    [
        [sys.executable, "manage.py", "check"],
        [sys.executable, "-m", "gunicorn", "-c", "config/gunicorn.conf.py", "--check-config"],
        [sys.executable, "-m", "config.live"],
    ],
    ids=["manage.py", "gunicorn", "the live server"],
)
def test_a_wrong_setting_is_named_in_one_line(command):
    done = run(command, environment(**KEYS, LIMITS_URL="rediscache://127.0.0.1:6379/1"))
    assert done.returncode == 1
    assert done.stderr == (
        "Invalid settings: LIMITS_URL takes redis://:password@host:6379/1, or nothing.\n"
    )


def test_every_setting_that_is_read_is_described_and_the_other_way_round():
    source = "".join((ROOT / path).read_text() for path in READ_BY)
    read = re.findall(
        r"""(?:setting|text|flag|number|number_or_off|limit|keys|_keys|networks|hosts|environ\.get)\(\s*['"]([A-Z_]+)""",
        source,
    )
    example = (ROOT / ".env.example").read_text()
    described = re.findall(r"^(?:# )?([A-Z_]+)=", example, re.MULTILINE)
    assert set(read) == set(described)
    assert len(described) == len(set(described))


def test_the_example_shows_the_defaults():
    example = (ROOT / ".env.example").read_text()
    shown = dict(re.findall(r"^# ([A-Z_]+)=(.*)$", example, re.MULTILINE))
    del shown["DATABASE_URL"], shown["ENV_FILE"]  # paths of another machine
    names = (
        "DEBUG BASE_URL ALLOWED_HOSTS REQUIRE_HTTPS REQUIRE_STAFF_MFA TRUSTED_PROXIES THREADS "
        "TIMESTAMP_TOLERANCE WAITING_READERS LIMIT_STREAMS LIMITS LIMITS_URL CACHES EMAIL_BACKEND "
        "DEFAULT_FROM_EMAIL LOG_LEVEL METRICS_TOKEN DELIVERY_HOST_RATE "
        "DELIVERY_DESK_RATE NOTICE_RATE"
    )
    assert look(names, **KEYS, **shown) == look(names, **KEYS)


def test_the_example_holds_no_key():
    assert refusal(ENV_FILE=str(ROOT / ".env.example")) == (
        "SECRET_KEY is not set. See .env.example for its meaning."
    )


def test_the_bot_of_telegram_needs_its_name_and_its_token():
    token = f"123456:{'a' * 35}"
    both = {"TELEGRAM_BOT": "SignalsBot", "TELEGRAM_BOT_TOKEN": token}
    assert look("TELEGRAM_BOT TELEGRAM_BOT_TOKEN", **KEYS, **both) == both
    for name, value in both.items():
        said = refusal(**KEYS, **{name: value})
        assert said.startswith(f"{name} takes effect with TELEGRAM_BOT")
        assert token not in said


def test_replicas_need_postgresql():
    replicas = {"REPLICA_URL": "postgres://name:password@db1:5432,db2:5433/signals"}
    postgresql = {"DATABASE_URL": "postgres://name@db1/signals"}
    found = look("REPLICA", **KEYS, **postgresql, **replicas)["REPLICA"]
    assert (found["HOST"], found["PORT"]) == ("db1,db2", "5432,5433")
    assert refusal(**KEYS, **replicas).startswith("REPLICA_URL takes effect with PostgreSQL")

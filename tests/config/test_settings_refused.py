"""Every setting is checked at start, and an invalid one is named in one sentence."""

import os
import re

import pytest
from django.core.exceptions import ImproperlyConfigured

from config.environment import ROOT
from tests.config.test_settings import KEY, KEYS, read

pytestmark = pytest.mark.once

PASSWORD = "hunter2"

NUMBERS = ["", "many", "1.5", "-1", "+1", " 1", "1_0", "٣", "9" * 5000, "$THREADS"]
SWITCHES = ["", "enabled", "2", "o n", "$DEBUG"]
RANDOM_KEYS = [
    "",
    "secret",
    KEY[:-2],
    f"{KEY},{KEY[:-2]}",
    f"{KEY},",
    "00" * 32,
    f"{KEY},{'11' * 32}",
]
A_LIMIT = ["", "often", "0/minute", "-1/minute", "1/fortnight", "OFF", "5/minute;9/hour", "1.5/day"]
SCHEMES = ["", "nonsense", "http://host/1", "://", "//host", "host:6379"]
OF_REDIS = [
    "redis://",
    "redis://:6379/0",
    f"redis://:{PASSWORD}@host:port/0",
    f"redis://:{PASSWORD}@host:99999/0",
    f"redis://:{PASSWORD}@host/zero",
    f"redis://:{PASSWORD}@host/0?nonsense=1",
    "redis://[::1/0",
]

WRONG = {
    "SECRET_KEY": ["", "a" * 31, f"{KEY},{'a' * 31}", f"{KEY},"],
    "TOKEN_KEYS": RANDOM_KEYS,
    "SECRET_KEYS": RANDOM_KEYS,
    "BASE_URL": [
        "",
        "signals.example",
        "https://signals.example/",
        "https://signals.example/path",
        "https://signals.example?",
        "https://name@signals.example",
        "https://signals.example:port",
        "https://signals.example:",
        "https://",
        "https://a b",
        "https://[::1",
        "ftp://signals.example",
    ],
    "ALLOWED_HOSTS": [
        "",
        ",",
        "signals.example,",
        "https://signals.example",
        "a:8000",
        "a b",
        "a/b",
    ],
    "HOST": ["", "a b", "http://127.0.0.1", "127.0.0.1:8000", "unix:/run/signals", "1::2::3"],
    "PORT": [*NUMBERS, "0", "65536"],
    "LIVE_PORT": [*NUMBERS, "0", "65536"],
    "TRUSTED_PROXIES": NUMBERS,
    "REQUIRE_HTTPS": SWITCHES,
    "REQUIRE_STAFF_MFA": SWITCHES,
    "DEBUG": SWITCHES,
    "LOG_LEVEL": ["", "loud", "INFO", "10"],
    "METRICS_TOKEN": ["a" * 31, "a" * 31 + " b", "ä" * 40],
    "DATABASE_URL": [
        *SCHEMES,
        "mysql://name@host/signals",
        "postgres://",
        "postgres://host",
        f"postgres://name:{PASSWORD}@host:port/signals",
        f"postgres://name:{PASSWORD}@host:99999/signals",
        f"postgres://name:{PASSWORD}@host/signals?nonsense=1",
        f"postgres://name:{PASSWORD}@host/signals?CONN_MAX_AGE=60",
        "postgres://[::1/signals",
        "sqlite://",
        "sqlite:///",
        "sqlite://host/file",
        "sqlite:////no/such/folder/file",
        f"sqlite:///{ROOT}",
        "sqlite:///file?timeout=soon",
    ],
    "REPLICA_URL": [
        *SCHEMES[1:],
        "sqlite:///file",
        "postgres:///signals",
        f"postgres://name:{PASSWORD}@db1:5432,db2/signals",
        f"postgres://name:{PASSWORD}@db1/signals",
        f"postgres://name:{PASSWORD}@db1:5432/signals?hostaddr=192.0.2.1",
    ],
    "PATRONI_PORT": ["0", "65536", "http"],
    "CACHE_URL": [
        *SCHEMES,
        *(address.replace("redis", "rediscache", 1) for address in OF_REDIS),
        "redis://host:6379/0",
        "locmemcache://",
        "filecache:///tmp",
        "pymemcache://host:11211",
        "dbcache://",
        "dbcache://a;b",
    ],
    "LIMITS_URL": [
        *SCHEMES[1:],
        *OF_REDIS,
        "rediscache://host:6379/1",
        "memory://",
        "memcached://host:11211",
    ],
    "EMAIL_URL": [
        *SCHEMES,
        "smtp://",
        "smtp",
        f"smtp+tls://name:{PASSWORD}@host:port",
        f"smtp+tls://name:{PASSWORD}@host:99999",
        f"smtp+tls://name:{PASSWORD}@host:587?nonsense=1",
        "filemail://",
    ],
    "FROM_EMAIL": ["", "signals", "@", "signals@", "a@b\nBcc: c@d", "a b@c"],
    "WEB_CONCURRENCY": [*NUMBERS, "0", "1001"],
    "THREADS": [*NUMBERS, "0"],
    "WAITING_READERS": NUMBERS,
    "TIMESTAMP_TOLERANCE": [*NUMBERS, "0"],
    "DELIVERY_ALLOW": ["all", ",", "10.0.0.0/8,", "10.1.2.3/16", "10.0.0.0/33", "localhost"],
    "NTFY_HOSTS": [
        *("https://ntfy.sh", "ntfy.sh/", ",", "ntfy.sh,", "ntfy.sh, ntfy.example", "NTFY.sh"),
        *("ntfy..sh", "ntfy.sh.", "*.ntfy.sh", "ntfy.sh:0", "ntfy.sh:port", "a@ntfy.sh"),
    ],
    "TELEGRAM_BOT": ["@SignalsBot", "signals", "1bot", "SignalsBot", "https://t.me/SignalsBot"],
    "TELEGRAM_BOT_TOKEN": ["token", f"123456:{PASSWORD}", f"123456:{'a' * 35}", f"bot1:{'a' * 35}"],
    "OTEL_EXPORTER_OTLP_ENDPOINT": ["collector:4318", "ftp://collector", "http://", "http://a b"],
    "ENV_FILE": ["", "/no/such/file", str(ROOT)],
    **dict.fromkeys(
        re.findall(r"^# (LIMIT_\w+)=", (ROOT / ".env.example").read_text(), re.M), A_LIMIT
    ),
    "LIMIT_STREAMS": [*NUMBERS, "0", "5/minute"],
    **dict.fromkeys(("NOTICE_RATE", "DELIVERY_HOST_RATE", "DELIVERY_DESK_RATE"), A_LIMIT),
}

RIGHT = {
    "BASE_URL": ["http://localhost:8000", "https://signals.example", "http://[::1]:8000"],
    "ALLOWED_HOSTS": ["a.example,127.0.0.1", "[::1]", "*", ".example"],
    "HOST": ["127.0.0.1", "::1", "[::1]", "localhost", "192.0.2.1"],
    "METRICS_TOKEN": ["", KEY],
    "DATABASE_URL": [
        "postgres:///signals",
        f"postgresql://name:{PASSWORD}@host:5432/signals?sslmode=require&passfile=/etc/pgpass",
        "postgres://name@%2Frun%2Fpostgresql/signals",
        "sqlite:////dev/null",
        "sqlite:///file",
    ],
    "CACHE_URL": ["dbcache://cache", f"rediscache://:{PASSWORD}@host:6379/0", "rediscache://host"],
    "LIMITS_URL": ["", f"redis://:{PASSWORD}@host:6379/1", f"rediss://name:{PASSWORD}@host/1"],
    "EMAIL_URL": [
        "consolemail://",
        "memorymail://",
        "filemail:////tmp/mail",
        f"smtp+tls://name:{PASSWORD}@host:587",
        "smtp://host",
    ],
    "FROM_EMAIL": ["signals@localhost", "Signals <signals@signals.example>"],
    "DELIVERY_ALLOW": ["", "127.0.0.1", "10.1.0.0/16,fd00::/8"],
    "NTFY_HOSTS": ["", "ntfy.sh", "ntfy.sh,ntfy.example:8443"],
    "TELEGRAM_BOT": [""],
    "TELEGRAM_BOT_TOKEN": [""],
    "LIMIT_READS": ["off", "50000/day", "1/second"],
}


@pytest.fixture
def start(monkeypatch):
    """Reads the settings again, in an environment with these only."""
    for name in {*WRONG, *KEYS} & os.environ.keys():
        monkeypatch.delenv(name)

    def started(name, value):
        for each, text in {**KEYS, "ENV_FILE": os.devnull, name: value}.items():
            monkeypatch.setenv(each, text)
        return read()

    return started


def refusal(start, name, value):
    """The sentence with which the service does not start, or an empty one if it does."""
    try:
        start(name, value)
    except ImproperlyConfigured as refused:
        return str(refused)
    return ""


@pytest.mark.parametrize("name", WRONG)
def test_a_setting_that_is_wrong_is_named_in_one_sentence(start, name):
    for value in WRONG[name]:
        sentence = refusal(start, name, value)
        in_form = re.fullmatch(rf"{name} [^\n]+\.", sentence)
        assert in_form or sentence.startswith(f"{name} takes keys"), (value, sentence)
        assert PASSWORD not in sentence


@pytest.mark.parametrize("name", RIGHT)
def test_a_setting_that_is_right_is_taken(start, name):
    for value in RIGHT[name]:
        assert start(name, value)


def test_every_setting_of_the_example_is_tried():
    example = (ROOT / ".env.example").read_text()
    assert WRONG.keys() == set(re.findall(r"^(?:# )?([A-Z_]+)=", example, re.MULTILINE))

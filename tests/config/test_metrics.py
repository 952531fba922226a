"""The metrics at /metrics match the requests that were sent."""

import re
import secrets
from collections import Counter

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from config.environment import ROOT
from tests.client import HOOK, signed
from tests.conformance.streams import MEDIA_TYPE, frames_of
from tests.server import METRICS_TOKEN
from tests.signals.contract.test_relay import message
from tests.streams import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.once]

READER = {"Authorization": f"Bearer {METRICS_TOKEN}"}
LOAD = 24  # requests of each sort


def numbers(web):
    """Returns every sample by name and labels."""
    answer = httpx2.get(f"{web.base_url}/metrics", headers=READER, trust_env=False)
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"].startswith("text/plain")
    families = text_string_to_metric_families(answer.text)
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def pushed(web, **changes):
    """Sends each request on a new connection, so that both workers get some."""
    bot = web.seed["automation"]
    body = message(bot, **changes).encode()
    return httpx2.post(
        f"{web.base_url}{HOOK}",
        content=body,
        headers=signed(bot["secret"], body=body),
        trust_env=False,
    )


def grown(before, after, name):
    """Returns the increase of a metric, by label values."""
    return {
        tuple(value for _, value in key[1:]): after[key] - before.get(key, 0)
        for key in after
        if key[0] == name and after[key] != before.get(key, 0)
    }


def test_after_a_load_they_equal_what_was_sent(web):
    before = numbers(web)
    sent = Counter()
    for _ in range(LOAD):
        sent[pushed(web).status_code] += 1
        sent[pushed(web, direction="short").status_code] += 1
        sent[pushed(web, pair="ETHUSDT").status_code] += 1
    httpx2.get(f"{web.base_url}/api/v1/me", trust_env=False)
    after = numbers(web)
    assert sent == {200: LOAD, 422: 2 * LOAD}
    assert grown(before, after, "signals_received_total") == {
        ("filled", "tradingview"): LOAD,
        ("refused", "tradingview"): 2 * LOAD,
    }
    assert grown(before, after, "signals_refusals_total") == {
        ("direction_mismatch",): LOAD,
        ("ticker_only",): LOAD,
        ("credentials_missing",): 1,
    }
    requests = grown(before, after, "signals_http_requests_total")
    assert requests["api/hooks/signal", "200"] == LOAD
    assert requests["api/hooks/signal", "422"] == 2 * LOAD
    assert requests["api/v1/me", "401"] == 1
    assert grown(before, after, "signals_intake_seconds_count") == {(): 3 * LOAD}
    assert after["signals_log_head",] - before["signals_log_head",] == 3 * LOAD


def test_every_metric_that_an_alert_reads_is_there(web):
    rules = (ROOT / "deploy" / "alerts.yaml").read_text()
    pushed(web)
    pushed(web, direction="short")
    assert set(re.findall(r"signals_\w+", rules)) <= {key[0] for key in numbers(web)}


def test_no_label_names_who_was_counted(web):
    pushed(web)
    names = {name for key in numbers(web) for name, _ in key[1:]}
    numbered = {"route", "status", "source", "outcome", "code", "le", "part", "state"}
    assert names <= numbered | {"waited_for"}


def test_paths_and_sources_that_anybody_makes_up_are_one_label(web):
    def labels():
        return {value for key in numbers(web) for _, value in key[1:]}

    def made_up_once():
        made_up = secrets.token_hex(8)
        httpx2.get(f"{web.base_url}/{made_up}", trust_env=False)
        httpx2.get(f"{web.base_url}/problems/{made_up}", trust_env=False)
        httpx2.post(
            f"{web.base_url}/api/hooks/signal",
            json={"source": made_up},
            headers={"Authorization": f"Bearer {web.seed['platformToken']}"},
            trust_env=False,
        )

    made_up_once()
    labels()  # a request too, and counted
    before = labels()
    for _ in range(5):
        made_up_once()
    assert labels() == before
    assert {"none", "unknown", "problems/<str:code>"} <= before


def test_a_stream_is_counted_while_it_is_open_and_so_is_what_it_gets(web):
    headers = {"Authorization": f"Bearer {web.seed['readToken']}", "Accept": MEDIA_TYPE}
    wait_until(lambda: not numbers(web)["signals_live_readers",], "others read")
    before = numbers(web)
    with httpx2.Client(base_url=web.base_url, trust_env=False, timeout=60) as client:
        with client.stream("GET", "/api/v1/events", headers=headers) as answer:
            frames = frames_of(answer.iter_lines())
            assert next(frames).retry
            during = numbers(web)
            assert during["signals_live_readers",] == during["signals_waiting_readers",] == 1
            pushed(web)
            event = next(frame for frame in frames if frame.data)
        wait_until(lambda: not numbers(web)["signals_live_readers",], "the reader is not gone")
    after = numbers(web)
    assert after["signals_waiting_readers",] == 0
    assert grown(before, after, "signals_live_lag_seconds_count") == {(): 1}
    [written] = grown(before, after, "signals_live_written_bytes_total").values()
    assert written > len(event.data)
    assert after["signals_live_cut_readers_total",] == 0


@pytest.mark.parametrize(
    "authorization",
    [None, "Bearer", "Bearer wrong", pytest.param(METRICS_TOKEN, id="no scheme"), "Bearer é"],
)
def test_without_the_token_there_is_nothing(web, authorization):
    headers = {"Authorization": authorization.encode()} if authorization else {}
    answer = httpx2.get(f"{web.base_url}/metrics", headers=headers, trust_env=False)
    assert answer.status_code == 404
    assert "signals_" not in answer.text


@pytest.mark.django_db
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer "}, READER])
def test_by_default_nobody_has_one(client, headers):
    assert client.get("/metrics", headers=headers).status_code == 404


def test_which_parts_are_up_is_a_number(web):
    parts = {key[1][1]: value for key, value in numbers(web).items() if key[0].endswith("_up")}
    assert parts == {"database": 1, "migrations": 1, "limits": 1, "cache": 1}

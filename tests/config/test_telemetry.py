"""Spans that are sent to a collector: which, how they hang together, and what they do not say."""

import hashlib
import json
import secrets
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import httpx2
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.client import bearer
from tests.config.test_settings import KEYS, ROOT, environment
from tests.server import ADDRESS, delivering, free_port, run_python, serving
from tests.signals.outbound.listeners import endpoint, reply
from tests.signals.webhooks.runner.stage import until

pytestmark = [pytest.mark.processes, pytest.mark.once]

EXPORTING: Any = {"OTEL_BSP_SCHEDULE_DELAY": "50", "WEB_CONCURRENCY": "1"}
TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
ATTRIBUTES = {
    *("http.request.method", "http.route", "http.response.status_code", "error.type"),
    *("signals.outcome", "signals.events", "signals.webhook", "signals.position"),
}
SUBSCRIBE = """
import sys
import django
django.setup()
from desks.models import Desk
from events.actors import SYSTEM
from signals.webhooks import actions
from signals.webhooks.models import Subscription
desk = Desk.objects.get(public_id=sys.argv[1])
secret, row = actions.create(desk=desk, url=sys.argv[2], kinds=[], actor=SYSTEM)
ready = {"state": "active", "is_verified": True, "test_requested_at": None}
Subscription.objects.filter(pk=row.pk).update(**ready)
print(secret)
"""


def spans_of(requests):
    """The spans of these exports."""
    exports = [ExportTraceServiceRequest.FromString(one.body) for one in list(requests)]
    return [
        span
        for export in exports
        for resource in export.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def deploy(server, changes=None, **headers):
    """Deploys a signal to the first desk. Returns its nonce, and the answer."""
    card = server.seed["card"]
    body = {"nonce": secrets.token_hex(8), "elected": True, "source": "floor"}
    body |= {"pair": card["pair"], "direction": card["direction"]}
    body |= changes or {}
    path = f"/api/v1/desks/{server.seed['desks'][0]['userId']}/signal"
    answer = httpx2.post(
        f"{server.base_url}{path}",
        json=body,
        headers={**bearer(server.seed["platformToken"]), **headers},
        trust_env=False,
    )
    return body["nonce"], answer


def test_the_spans_of_a_signal_and_of_its_delivery_hang_together_and_tell_no_secret():
    with (
        endpoint(reply(200)) as collector,
        endpoint(reply(200)) as customer,
        serving(**EXPORTING, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url("")) as server,
    ):
        desk = server.seed["desks"][0]["userId"]
        url = customer.url(f"/key-{secrets.token_hex(8)}")
        allowed = {**server.environment, "DELIVERY_ALLOW": f"{ADDRESS}/32"}
        secret = run_python(allowed, "-c", SUBSCRIBE, desk, url).strip()
        with delivering(server):
            nonce, answer = deploy(server, traceparent=f"00-{TRACE}-{CALLER}-01")
            assert answer.status_code == 200
            message_id = f"evt_{answer.json()['signal']['position']}_"
            headers = until(
                lambda: [
                    one.headers
                    for one in list(customer.requests)
                    if one.headers["webhook-id"].startswith(message_id)
                ]
            )[0]
            own = hashlib.sha256(headers["webhook-id"].encode()).hexdigest()[:32]
            query = secrets.token_hex(8)
            assert deploy(server, {"pair": "DOGE/USDT"})[1].status_code == 422
            path = f"/api/v1/events?after={query}"
            token = server.seed["desks"][0]["deskToken"]
            httpx2.get(f"{server.base_url}{path}", headers=bearer(token), trust_env=False)

            def found(name, trace):
                spans = spans_of(collector.requests)
                named = (one for one in spans if one.name.split()[0] == name)
                return [one for one in named if one.trace_id.hex() == trace]

            [delivery] = until(lambda: found("delivery", own))
            [request] = until(lambda: found("POST", TRACE))
            [queue], [turn] = found("queue", TRACE), found("turn", TRACE)
            until(
                lambda: any(one.name == "GET api/v1/events" for one in spans_of(collector.requests))
            )
        logged = lines_of(server)
    spans = spans_of(collector.requests)
    assert request.parent_span_id.hex() == CALLER
    assert (queue.parent_span_id, turn.parent_span_id) == (request.span_id, queue.span_id)
    assert delivery.parent_span_id == b""
    for span in (queue, turn):
        assert own in [link.trace_id.hex() for link in span.links]
    assert headers["traceparent"] == f"00-{own}-{delivery.span_id.hex()}-01"

    names = {span.name.partition(" ")[0] for span in spans}
    assert names <= {"GET", "POST", "queue", "turn", "delivery"}
    names_of_attributes = {attribute.key for span in spans for attribute in span.attributes}
    # A refusal is an exception within the span, whose text nobody sees.
    assert "error.type" in names_of_attributes
    assert names_of_attributes <= ATTRIBUTES
    assert not any(span.events for span in spans)
    sent = b"".join(one.body for one in collector.requests)
    host = customer.url("")
    known = (nonce, query, token, server.seed["platformToken"], secret, url, desk, host)
    assert [text for text in known if text.encode() in sent] == []
    assert TRACE in [line.get("trace_id") for line in logged]


def lines_of(server):
    """The lines that the server logged."""
    return [json.loads(line) for line in server.log.read_text().splitlines()]


def test_without_a_collector_the_service_serves_and_its_log_stays_json():
    away = f"http://{ADDRESS}:{free_port()}"
    with serving(**EXPORTING, OTEL_EXPORTER_OTLP_ENDPOINT=away) as server:
        assert [deploy(server)[1].status_code for _ in range(5)] == [200] * 5
        until(lambda: "opentelemetry" in server.log.read_text())
        lines = lines_of(server)
    answered = [line for line in lines if line["event"] == "request" and line["status"] == 200]
    # Each request begins a trace of its own.
    deploys = [line["trace_id"] for line in answered if "signal" in line["route"]]
    assert len(deploys) == len(set(deploys)) == 5


# Where it is installed the client of Redis imports parts of it by itself, but no exporter.
ONLY_WITH_IT = {"events.telemetry", "opentelemetry.exporter"}
IMPORTED = (
    "import django; django.setup(); from django.urls import get_resolver;"
    "get_resolver().url_patterns; import signals.management.commands.deliver, sys;"
    f"print({ONLY_WITH_IT} & set(sys.modules))"
)


def test_nothing_of_it_is_imported_without_its_setting():
    assert all(find_spec(name) for name in ONLY_WITH_IT)
    given = environment(DJANGO_SETTINGS_MODULE="config.settings", **KEYS)
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED], cwd=ROOT, env=given, capture_output=True, text=True
    )
    assert (done.stdout.strip(), done.returncode) == ("set()", 0), done.stderr


def test_its_setting_without_its_packages_is_refused_in_one_sentence():
    code = "import sys; sys.modules['opentelemetry'] = None; import config.settings"
    given = environment(**KEYS, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:4318")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=given, capture_output=True, text=True
    )
    assert done.stderr.rstrip().endswith(
        "OTEL_EXPORTER_OTLP_ENDPOINT needs what requirements/telemetry.txt lists."
    )

"""What the OpenAPI document says of bodies, answers, events and limits is true."""

import json
import re
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.utils import timezone

from config.settings import LIMITS
from desks import actions as desks
from desks.expectations import Watch
from desks.ids import EXAMPLE_BOT_ID, EXAMPLE_SIGNAL_ID, EXAMPLE_SUBSCRIPTION_ID
from events.actors import SYSTEM
from events.feed import read_head, read_identity
from events.http.cursors import log_cursor
from events.http.limits import Budget
from events.json_schema import EXAMPLE_USER_ID
from events.kinds import Kind
from events.live.frames import (
    EndReason,
    Version,
    end_frame,
    event_frame,
    first_frame,
    position_frame,
)
from events.models import Event
from signals.webhooks.api import EXAMPLE_EVENT_ID
from signals.webhooks.messages import event_message, signed_headers
from signals.webhooks.records import EXAMPLE_CURSOR
from tests import client, described, factories
from tests.conformance.document import Comparison
from tests.conformance.streams import frames_of
from tests.signals import bodies
from tests.signals.webhooks.stage import (
    a_webhook,
    a_webhooks_life,
    an_active_webhook,
    cursor_at,
    of,
)
from tokens import account_closing
from tokens import actions as tokens
from tokens.account_closing import close_account
from tokens.choices import Source
from tokens.models import Token
from tokens.models.token import EXAMPLE_TOKEN_ID

pytestmark = pytest.mark.once

IN_BODIES = [
    (operation_id, name)
    for operation_id, operation in described.operations().items()
    for name in described.examples(operation)
]


@pytest.fixture
def stage(desk, card):
    """The objects in the examples: a ready desk, its bot with an election, a token."""
    bot = factories.a_bot(desk, pair=card.pair, direction=card.direction)
    token = Token.objects.get(pk=tokens.mint_desk_token(desk=desk, actor=SYSTEM)[1].pk)
    webhook = an_active_webhook(desk)
    names = {
        EXAMPLE_EVENT_ID: Event.objects.filter(topic=desk.public_id).latest("position").id,
        EXAMPLE_USER_ID: desk.public_id,
        EXAMPLE_BOT_ID: bot.id,
        EXAMPLE_TOKEN_ID: token,
        EXAMPLE_SUBSCRIPTION_ID: webhook,
        EXAMPLE_CURSOR: cursor_at(webhook.cursor_position),
    }
    return names, bot


def on_stage(stage, value):
    """Returns an example with the ids of existing objects."""
    text = json.dumps(value)
    for example, real in stage[0].items():
        text = text.replace(example, getattr(real, "public_id", real))
    return json.loads(text)


def send(stage, operation, body):
    """Sends a body to an operation as a caller who is allowed to."""
    raw = json.dumps(body).encode()
    path = operation["path"].replace("{userId}", stage[0][EXAMPLE_USER_ID])
    path = path.replace("{subscriptionId}", stage[0][EXAMPLE_SUBSCRIPTION_ID].public_id)
    if path.startswith((client.TOKENS, client.SUBSCRIPTIONS)):
        staff = path == client.TOKENS and body.get("scope") != "desk"
        user = factories.a_staff_user() if staff else stage[1].automation.desk.user
        browser = client.signed_in(user, "password")
        return browser.generic(operation["method"], path, raw, client.JSON)
    if body["source"] == Source.TRADINGVIEW:
        return client.post(path, raw, secret=stage[1].secret)
    return client.post(path, raw, factories.a_platform_token("write"))


@pytest.mark.parametrize(("operation_id", "name"), IN_BODIES)
def test_every_example_of_a_body_is_accepted_and_answered_as_described(stage, operation_id, name):
    operation = described.operations()[operation_id]
    body = on_stage(stage, described.examples(operation)[name])
    answer = send(stage, operation, body)
    assert str(answer.status_code) in operation["responses"], answer.content
    assert answer.status_code < 300, answer.content
    assert described.faults(operation_id, answer) == []


@pytest.fixture
def history(desk, stranger, card):
    """A log with every kind of event."""
    bot = factories.a_bot(desk)
    token = factories.a_platform_token()
    factories.a_shared_secret()
    factories.a_desk_token(stranger)
    client.push(bodies.tradingview(bot), secret=bot.secret)
    client.push(bodies.tradingview(bot, pair="SOL/USDT"), secret=bot.secret)
    client.push(bodies.tradingview(bot), secret=factories.a_shared_secret(Source.NOX))
    hour = timedelta(hours=1)
    factories.expect(bot, factories.expecting(hour, hour), max_age=hour)
    factories.expect(bot, factories.expecting(hour, timedelta(0)))
    with time_machine.travel(timezone.now() + 2 * hour):
        Watch().look(timezone.now())
        client.push(bodies.tradingview(bot), secret=bot.secret)
        Watch().look(timezone.now())
    client.push(bodies.fanout(), token)
    client.push(bodies.fanout(pair="SOL/USDT", source="other"), token)
    client.push(bodies.nox(mode="dry_run", size_quote=12.5, decision_ref="d"), token)
    client.push(bodies.nox(mode="draft", rationale=None), token)
    factories.a_desk_token(desk)
    a_webhooks_life(desk), a_webhooks_life(None)
    desks.withdraw(desk=desk, actor=SYSTEM)
    tokens.remove_automation(automation=bot.automation, actor=SYSTEM)
    close_account(factories.a_ready_desk(card))
    account_closing.deactivate(user=desk.user, actor=SYSTEM)
    account_closing.reactivate(user=desk.user, actor=SYSTEM)
    factories.a_card("Evening")
    return token, factories.a_desk_token(desk)


def test_every_event_is_as_described_for_the_platform(history):
    answer = client.get(f"{client.EVENTS}?limit=1000", history[0])
    assert described.faults("listEvents", answer) == []
    assert {event["kind"] for event in answer.json()["events"]} == set(Kind)


def test_every_event_is_as_described_for_a_desk(history):
    answer = client.get(f"{client.EVENTS}?limit=1000", history[1])
    assert described.faults("listEvents", answer) == []
    assert len(answer.json()["events"]) > 10


def test_every_frame_of_a_stream_is_as_described(history):
    epoch = read_head().epoch
    cursor = log_cursor(epoch, 1, read_identity(1))
    frames = [first_frame(cursor), position_frame(cursor)]
    frames += [end_frame(reason) for reason in EndReason if reason is not EndReason.SIGNED_OUT]
    frames += [
        event_frame(event, epoch, version)
        for event in Event.objects.all()
        for version in (Version.PLATFORM, Version.DESK)
    ]
    comparison = Comparison(described.document)
    for frame in frames_of(b"".join(frames).decode().split("\n")):
        comparison.on_frame({name: value for name, value in asdict(frame).items() if value})
    assert comparison.faults == []
    assert comparison.frames == len(frames)


def faulty(value):
    """Copies of a value, each with one leaf of a wrong type or one member too many."""
    if isinstance(value, dict):
        yield {**value, "unknown": 1}
    if not value or not isinstance(value, dict | list):
        yield [[]]
        return
    names = list(value) if isinstance(value, dict) else range(len(value))
    for name in names:
        for wrong in faulty(value[name]):
            copied = value.copy()
            copied[name] = wrong
            yield copied


def test_a_wrong_type_is_seen_wherever_it_is_in_an_answer_a_message_and_a_frame(history):
    document, epoch = described.described(), read_head().epoch
    operation = described.operations()["listEvents"]
    answer = client.get(f"{client.EVENTS}?limit=1000", history[0])
    first = frames_of(
        event_frame(Event.objects.first(), epoch, Version.PLATFORM).decode().split("\n")
    )
    (frame,) = ({name: value for name, value in asdict(each).items() if value} for each in first)
    for record in {event["kind"]: event for event in answer.json()["events"]}.values():
        for wrong in faulty({**answer.json(), "events": [record]}):
            body = json.dumps(wrong).encode()
            assert document.answer_faults(operation, 200, answer.headers, body), wrong
    # Messages and frames hold the same records.
    message = event_message(record, epoch)
    headers = signed_headers(message, ["whsec_" + "A" * 40], 1_700_000_000)
    for wrong in faulty(json.loads(message.body)):
        assert document.message_faults(headers, json.dumps(wrong).encode()), wrong
    for wrong in faulty(record):
        assert document.frame_faults({**frame, "data": json.dumps(wrong)}), wrong
    for name in headers.keys() - {"Content-Type"}:
        assert document.message_faults({**headers, name: "x"}, message.body), name
    for name in operation["responses"]["200"]["headers"]:
        assert document.answer_faults(operation, 200, {**answer.headers, name: "?"}, b""), name
    for name in ("event", "data", "unknown"):
        assert document.frame_faults({**frame, name: "{}"}), name


def test_a_wrong_type_is_seen_wherever_it_is_in_the_example_of_an_answer():
    for name, operation in described.operations().items():
        for status, response in operation["responses"].items():
            for content in described.resolved(response).get("content", {}).values():
                for example in content.get("examples", {}).values():
                    for wrong in faulty(described.resolved(example)["value"]):
                        faults = described.shape_faults(content["schema"], wrong)
                        assert faults, (name, status, wrong)


def test_another_frame_is_not_as_described():
    comparison = Comparison(described.document)
    ended = end_frame(EndReason.SIGNED_OUT).decode()  # only streams of pages end so
    for frame in frames_of([*ended.split("\n"), "id: x", "event: news", "data: {}", ""]):
        comparison.on_frame({name: value for name, value in asdict(frame).items() if value})
    assert len(comparison.faults) > 1


def test_what_is_read_is_as_described(desk, card):
    idle, platform = factories.a_desk(), factories.a_platform_token()
    an_active_webhook(desk, "signal.filled")
    bad = "?limit=0"
    signal = client.push(bodies.fanout(), platform).json()["signal"]
    for operation_id, path, token in [
        ("readCatalog", client.CATALOG, None),
        ("readContract", client.HOOK, None),
        ("readMe", client.ME, factories.a_desk_token(desk)),
        ("readMe", client.ME, platform),
        ("readMe", client.ME, None),
        ("listDesks", client.DESKS, platform),
        ("listDesks", client.DESKS + "?limit=1", platform),
        ("listDesks", client.DESKS + bad, platform),
        ("listDesks", client.DESKS, factories.a_platform_token("write")),
        ("readDesk", f"{client.DESKS}/{desk.public_id}", platform),
        ("readDesk", f"{client.DESKS}/{idle.public_id}", platform),
        ("readDesk", f"{client.DESKS}/{EXAMPLE_USER_ID}", platform),
        ("listBots", client.BOTS + bad, factories.a_desk_token(desk)),
        ("listBots", client.BOTS, platform),
        ("readSignal", f"{client.SIGNALS}/{signal['id']}", platform),
        ("readSignal", f"{client.SIGNALS}/{EXAMPLE_SIGNAL_ID}", platform),
        ("findSignal", f"{client.SIGNALS}?nonce={signal['nonce']}&source=floor", platform),
        ("findSignal", f"{client.SIGNALS}?nonce=never&source=floor", platform),
        ("findSignal", client.SIGNALS, platform),
        ("listSubscriptions", client.SUBSCRIPTIONS, factories.a_desk_token(desk)),
        ("listSubscriptions", client.SUBSCRIPTIONS + bad, platform),
        ("readSubscription", of(a_webhook()), platform),
        ("readSubscription", of(a_webhook(desk)), platform),
        ("listTokens", client.TOKENS, platform),
        ("listTokens", client.TOKENS + bad, platform),
        ("listTokens", client.TOKENS, None),
        ("listEvents", client.EVENTS + bad, platform),
        ("listEvents", client.EVENTS, "svc_plat_none"),
    ]:
        assert described.faults(operation_id, client.get(path, token)) == [], path


def test_without_a_card_what_is_read_is_as_described(db):
    for operation_id, path in [("readCatalog", client.CATALOG), ("readContract", client.HOOK)]:
        answer = client.get(path)
        assert b'"publishedCard":null' in answer.content
        assert described.faults(operation_id, answer) == []


def test_the_refusals_of_signals_are_as_described(desk, card):
    bot, token = factories.a_bot(desk), factories.a_platform_token()
    spent = bodies.fanout()
    pushes: list[tuple[str, Any, dict[str, str]]] = [
        ("ok", spent, {"token": token}),
        ("nonce_used", spent, {"token": token}),
        ("pair_mismatch", bodies.fanout(pair="SOL/USDT"), {"token": token}),
        ("pair_mismatch", bodies.tradingview(bot, pair="SOL/USDT"), {"secret": bot.secret}),
        ("ticker_only", bodies.fanout(pair="BTCUSDT"), {"token": token}),
        ("invalid", bodies.nox(mode="other", trace_id=7), {"token": token}),
        ("exchange_secret", bodies.fanout(apiKey="x"), {"token": token}),
        ("not_found", bodies.floor(desk, userId=EXAMPLE_USER_ID), {"token": token}),
        ("desk_not_ready", bodies.floor(factories.a_desk()), {"token": token}),
        ("malformed", b"[]", {"token": token}),
        ("signature_missing", bodies.tradingview(bot), {"token": token}),
        ("signature_invalid", bodies.tradingview(bot), {"secret": "svc_sign_none"}),
        ("credentials_missing", bodies.fanout(), {}),
    ]
    for code, body, credential in pushes:
        answer = client.push(body, **credential)
        assert client.code(answer) == code
        assert described.faults("pushSignal", answer) == [], code


def test_what_is_left_of_a_limit_is_told_as_described(desk, settings):
    settings.LIMITS = {**settings.LIMITS, "reads": "1/minute"}
    token = factories.a_desk_token(desk)
    headers = described.document()["components"]["headers"]
    for status in (200, 429):
        answer = client.get(client.ME, token)
        assert answer.status_code == status
        assert described.faults("readMe", answer) == []
        for name in ("RateLimit", "RateLimit-Policy"):
            assert re.search(headers[name]["schema"]["pattern"], answer.headers[name])


@pytest.mark.parametrize("name", LIMITS)
def test_every_limit_has_a_name_as_described(name):
    headers = described.document()["components"]["headers"]
    for header, value in (
        Budget(name, quota=9, window=60, remaining=8, resets_in=60).headers().items()
    ):
        assert re.search(headers[header]["schema"]["pattern"], value)


def test_a_timestamp_that_is_refused_is_told_the_time_as_described(db):
    headers = client.signed("svc_sign_none", body=b"{}", at=1)
    answer = client.post(client.HOOK, b"{}", headers={**headers, "X-SVC-Timestamp": "1"})
    assert client.code(answer) == "timestamp_invalid"
    assert described.faults("pushSignal", answer) == []

"""What the OpenAPI document says of bodies, answers, events and limits is true."""

import json
import re
from dataclasses import asdict

import pytest

from config.settings import LIMITS
from desks.ids import EXAMPLE_BOT_ID, EXAMPLE_SUBSCRIPTION_ID
from desks.models import Chat
from events.actors import SYSTEM
from events.feed import read_head, read_identity
from events.http.cursors import log_cursor
from events.http.rate_limits import Budget
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
from tests.signals.audit.stage import a_lively_history
from tests.signals.webhooks.stage import (
    an_active_webhook,
    cursor_at,
)
from tokens import actions as tokens
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
def history(db):
    """A log with every kind of event. Returns a token of the platform, and one of a desk."""
    a_lively_history()
    return factories.a_platform_token(), factories.a_desk_token(Chat.objects.get().user.desk)


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
    for name in headers:
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


@pytest.mark.parametrize("name", LIMITS)
def test_every_limit_has_a_name_as_described(name):
    headers = described.document()["components"]["headers"]
    for header, value in (
        Budget(name, quota=9, window=60, remaining=8, resets_in=60).headers().items()
    ):
        assert re.search(headers[header]["schema"]["pattern"], value)

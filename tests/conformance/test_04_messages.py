"""Section 4, /api/v1/subscriptions: the messages of webhooks, at an endpoint of the tests."""

import hashlib
import re
import time

import pytest

from tests.conformance.browser import Bot, Browser
from tests.conformance.client import SUBSCRIPTIONS, nonce
from tests.conformance.receiver import PATIENCE, receiving

pytestmark = pytest.mark.once


def until(holds):
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.1)


def live(service, owner):
    """Something of everything that a desk does, and signals of each shape."""
    bot = Bot(owner)
    bot.elect("AAA/BBB", "long")
    secret = bot.generate()
    signal = bot.body(pair="AAA/BBB", direction="long")
    for body, credential in (
        (signal, {"secret": secret}),
        ({**signal, "nonce": nonce(), "direction": "short"}, {"secret": secret}),
        (service.to_desk(userId=service.own_desk), {"token": service.platform}),
        (service.fanout(), {"token": service.platform}),
        (service.of_nox(mode="dry_run", size_quote=12.5), {"token": service.platform}),
        (service.of_nox(mode="draft"), {"token": service.platform}),
    ):
        service.push(body, **credential)
    owner.mint_desk_token()
    bot.withdraw()
    bot.remove()


@pytest.mark.parametrize("who", ["admin", "user"])
def test_each_message_is_an_event_as_the_list_shows_it(service_that_delivers, who):
    """Section 4: the whole log of the platform, or of a desk, signed and as described."""
    service = service_that_delivers
    with (
        Browser(service) as owner,
        Browser(service) as subscriber,
        receiving(service.comparison.on_message) as receiver,
    ):
        owner.sign_in(service.seed["user"])
        subscriber.sign_in(service.seed[who])
        made = subscriber.api("POST", SUBSCRIPTIONS, {"url": receiver.url}).json()
        path = f"{SUBSCRIPTIONS}/{made['id']}"
        receiver.learn(made["secret"])
        until(lambda: subscriber.get(path).json()["state"] == "active")

        live(service, owner)
        rewound = subscriber.api("POST", f"{path}/rewind", {"since": "2020-01-01T00:00:00Z"})
        assert rewound.status_code == 200
        until(lambda: subscriber.get(path).json()["lag"] == 0)
        token = service.platform if who == "admin" else owner.mint_desk_token()
        listed = service.events(token, limit=1000)
        until(lambda: receiver.messages[-1:] and receiver.messages[-1]["data"] == listed[-1])
        subscriber.api("DELETE", path)
    messages = {message["data"]["position"]: message for message in receiver.messages}
    for event in listed:
        expected = {"type": event["kind"], "timestamp": event["at"], "data": event}
        assert messages[event["position"]] == expected
    assert len({event["kind"] for event in listed}) > 12


def test_an_attempt_is_in_the_trace_of_its_message_and_not_in_that_of_the_request(
    service_that_delivers,
):
    """Section 4: the trace's id is the first 32 digits of the SHA-256 of webhook-id."""
    service, given = service_that_delivers, "4bf92f3577b34da6a3ce929d0e0e4736"
    sent = {}

    def note(headers, body):
        service.comparison.on_message(headers, body)
        sent[headers["webhook-id"]] = headers["traceparent"]

    with Browser(service) as subscriber, receiving(note) as receiver:
        subscriber.sign_in(service.seed["user"])
        made = subscriber.api("POST", SUBSCRIPTIONS, {"url": receiver.url}).json()
        path = f"{SUBSCRIPTIONS}/{made['id']}"
        receiver.learn(made["secret"])
        until(lambda: subscriber.get(path).json()["lastTest"])
        body = service.to_desk(userId=service.own_desk)
        traced = {"traceparent": f"00-{given}-00f067aa0ba902b7-01"}
        service.push(body, token=service.platform, headers=traced)
        until(lambda: receiver.messages)
        subscriber.api("DELETE", path)
    assert {message_id[:4] for message_id in sent} == {"test", "evt_"}
    for message_id, traceparent in sent.items():
        own = hashlib.sha256(message_id.encode()).hexdigest()[:32]
        assert re.fullmatch(f"00-{own}-(?!0{{16}})[0-9a-f]{{16}}-0[01]", traceparent)

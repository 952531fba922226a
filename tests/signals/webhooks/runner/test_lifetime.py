"""A receiver that uses the public package of Standard Webhooks, and an owner who uses the API."""

import base64
import hashlib
import hmac
import json
from ipaddress import ip_network

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from signals.webhooks.models import Subscription
from tests import client
from tests.described import described
from tests.signals.outbound.listeners import endpoint, reply
from tests.signals.webhooks.runner.stage import running, until
from tests.signals.webhooks.stage import act, add_bots, create, of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture(autouse=True)
def allowed(settings):
    settings.DELIVERY_ALLOW = [ip_network("127.0.0.0/8")]


class Receiver:
    """Verifies each message, proves that it knows the secret, and fails at what is ``broken``."""

    def __init__(self):
        self.secrets, self.broken, self.gone = [], set(), False
        self.taken = []  # ids of the events that it answered with 2xx, in order

    def __call__(self, handler, request):
        message = Webhook(self.secrets[-1]).verify(request.body, request.headers)
        event, message_id = message["data"]["id"], request.headers["webhook-id"]
        assert described().message_faults(request.headers, request.body) == []
        if message["type"] == "subscription.test":
            key = base64.b64decode(self.secrets[-1].removeprefix("whsec_"))
            challenge = message["data"]["challenge"].encode()
            proof = hmac.new(key, challenge, hashlib.sha256).hexdigest()
            reply(200, json.dumps({"challenge": proof}).encode())(handler, request)
        elif event in self.broken:
            reply(503)(handler, request)
        else:
            assert message_id.startswith(f"{event}_")
            self.taken.append(event)
            reply(410 if self.gone else 204)(handler, request)


def test_test_failure_resend_skip_replay_and_rotation(desk):
    receiver = Receiver()
    owner = client.signed_in(desk.user, "password")

    def a_bot():
        """Makes an event. Returns its id."""
        [position] = add_bots(desk)
        return f"evt_{position}"

    def read():
        return owner.get(of(Subscription.objects.get())).json()

    with endpoint(receiver) as found:
        made = create(owner, {"url": found.url(), "kinds": ["automation.created"]}).json()
        receiver.secrets.append(made["secret"])
        webhook = Subscription.objects.get()
        with running():
            verified = until(lambda: read()["lastTest"])
            assert (read()["state"], verified["status"]) == ("active", 200)
            act(owner, webhook, "test")
            until(lambda: read()["lastTest"]["at"] > verified["at"])
            assert read()["lastTest"]["status"] == 200
            first = a_bot()
            until(lambda: receiver.taken == [first])

            receiver.broken = {broken := f"evt_{int(first.removeprefix('evt_')) + 1}"}
            assert a_bot() == broken
            waiting = a_bot()
            until(lambda: read()["state"] == "failing")
            (latest, *_), cursor = attempts(owner, webhook), read()["cursor"]
            assert (latest["event"], latest["status"]) == (broken, 503)

            assert act(owner, webhook, "resend", event=first).status_code == 202
            until(lambda: receiver.taken == [first, first])
            until(lambda: not read()["resends"])
            record = read()
            assert (record["cursor"], record["state"]) == (cursor, "failing")
            # What is broken may have been tried again since.
            assert [one["event"] for one in attempts(owner, webhook)].count(first) == 2

            act(owner, webhook, "skip", events="next")
            until(lambda: receiver.taken == [first, first, waiting])

            receiver.broken = set()
            act(owner, webhook, "rewind", since=made["createdAt"])
            again = [first, broken, waiting]
            until(lambda: receiver.taken[3:] == again)

            rotated = act(owner, webhook, "secret", overlap=3600).json()
            receiver.secrets.append(rotated["secret"])
            last = a_bot()
            until(lambda: receiver.taken[-1] == last)
            message = found.requests[-1]
            for secret in receiver.secrets:
                assert Webhook(secret).verify(message.body, message.headers)["data"]["id"] == last

            act(owner, webhook, "resend", event=last)
            until(lambda: receiver.taken[-2:] == [last, last])

            receiver.secrets.append(act(owner, webhook, "secret").json()["secret"])
            newest = a_bot()
            until(lambda: receiver.taken[-1] == newest)
            message = found.requests[-1]
            for ended in receiver.secrets[:-1]:
                with pytest.raises(WebhookVerificationError):
                    Webhook(ended).verify(message.body, message.headers)


def attempts(owner, webhook):
    listed: list[dict[str, object]] = owner.get(f"{of(webhook)}/attempts").json()["attempts"]
    return listed


def test_a_single_event_reaches_a_paused_webhook_and_a_410_disables_only_an_active_one(desk):
    receiver = Receiver()
    owner = client.signed_in(desk.user, "password")
    with endpoint(receiver) as found:
        made = create(owner, {"url": found.url(), "kinds": ["card.retired"]}).json()
        receiver.secrets.append(made["secret"])
        webhook, receiver.gone = Subscription.objects.get(), True
        event = f"evt_{webhook.cursor_position}"  # of another kind
        with running():
            until(lambda: Subscription.objects.get().state == "active")
            owner.patch(of(webhook), {"paused": True}, content_type="application/json")
            act(owner, webhook, "resend", event=event)
            until(lambda: 410 in [one["status"] for one in attempts(owner, webhook)])
            assert Subscription.objects.get().state == "paused"
            owner.patch(of(webhook), {"paused": False}, content_type="application/json")
            act(owner, webhook, "resend", event=event)
            until(lambda: Subscription.objects.get().reason == "gone")
    assert receiver.taken == [event, event]

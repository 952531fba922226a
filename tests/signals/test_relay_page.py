"""The help on a bot's page for signals from a chart: relay, sample message, mistakes."""

import json
import re

import pytest
from django.conf import settings
from django.contrib.staticfiles import finders

from signals.models import Signal
from tests.client import push, signed_in
from tests.pages import copied, source
from tests.signals.test_relay import MISTAKES

pytestmark = pytest.mark.django_db

FILLED_IN = {
    "{{strategy.order.id}}": "Long",
    "{{interval}}": "15",
    "{{timenow}}": "2026-11-20T09:30:00Z",
}


@pytest.fixture
def page(desk, bot):
    return signed_in(desk.user).get(f"/bots/{bot.id}")


def alerts(page):
    return [text for text in copied(page) if "{{" in text]


def filled_in(text, **changes):
    for placeholder, value in {**FILLED_IN, **changes}.items():
        text = text.replace(placeholder, value)
    return text


def test_there_is_a_message_for_strategies_and_one_for_indicators(page):
    assert [("strategy.order" in text) for text in alerts(page)] == [True, False]


def test_each_sample_message_is_accepted(page, bot):
    for text in alerts(page):
        assert push(filled_in(text).encode(), secret=bot.secret).status_code == 200


def test_pair_and_direction_are_no_placeholders(page):
    for text in alerts(page):
        body = json.loads(text)
        assert [name for name in body if "{{" in str(body[name])] == ["nonce"]


def test_a_retry_is_the_same_signal_and_the_next_alert_is_another(page, bot):
    text = alerts(page)[0]
    for later in ("2026-11-20T09:45:00Z", "2026-11-20T09:45:00Z", "2026-11-20T10:00:00Z"):
        push(filled_in(text, **{"{{timenow}}": later}).encode(), secret=bot.secret)
    assert Signal.objects.count() == 2


def test_the_nonce_fits_with_the_longest_names(page, bot):
    text = filled_in(alerts(page)[0], **{"{{strategy.order.id}}": "x" * 90})
    assert push(text.encode(), secret=bot.secret).status_code == 200


def test_the_page_offers_the_relay_and_its_settings(page):
    address = re.search(r'href="([^"]+)" download="relay.py"', source(page)).group(1)
    assert finders.find(address.removeprefix(settings.STATIC_URL))
    assert any("RELAY_HOOK=http://testserver/api/hooks/signal" in text for text in copied(page))


def test_every_linked_mistake_is_explained(page, client):
    named = set(re.findall(r'href="/problems/([a-z_]+)"', source(page)))
    assert set(MISTAKES) - {"direction_mismatch"} <= named
    for code in named:
        assert client.get(f"/problems/{code}").status_code == 200

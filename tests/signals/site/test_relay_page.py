"""The help on a bot's page for signals from a chart: relay, sample message, mistakes."""

import html
import json
import re

import pytest
from django.conf import settings
from django.contrib.staticfiles import finders

from signals.intake.models import Signal
from tests.client import push, signed_in
from tests.factories import a_bot
from tests.pages import copied, errors, source, words
from tests.signals.bodies import tradingview

pytestmark = [pytest.mark.django_db, pytest.mark.once]

FILLED_IN = {
    "{{strategy.order.action}}": "buy",
    "{{strategy.position_size}}": "0.5",
    "{{strategy.market_position}}": "long",
    "{{interval}}": "15",
    "{{timenow}}": "2026-11-20T09:30:00Z",
}


@pytest.fixture
def page(desk, bot):
    return signed_in(desk.user).get(f"/bots/{bot.id}/tradingview")


def alerts(page):
    return [text for text in copied(page) if text.startswith("{") and "{{" in text]


def filled_in_of(body):
    """The members that the platform fills in."""
    return {name for name in body if "{{" in str(body[name])}


def filled_in(text, **changes):
    for placeholder, value in {**FILLED_IN, **changes}.items():
        text = text.replace(placeholder, value)
    return text


def test_each_sample_message_is_accepted(page, bot):
    for text in alerts(page):
        assert push(filled_in(text).encode(), secret=bot.secret).status_code == 200


def test_the_platform_fills_in_the_nonce_and_the_order_of_a_strategy_and_nothing_else(page):
    strategy, indicator = (json.loads(text) for text in alerts(page))
    assert filled_in_of(strategy) == {"nonce", "market_position", "order_action"}
    assert filled_in_of(indicator) == {"nonce"}


def test_the_message_of_a_strategy_holds_no_name_that_could_break_the_json(page):
    placeholders = set(re.findall("{{(.+?)}}", alerts(page)[0]))
    assert placeholders - {"interval", "timenow"} == {
        *("strategy.order.action", "strategy.market_position", "strategy.position_size")
    }


def test_a_retry_is_the_same_signal_and_the_next_alert_is_another(page, bot):
    text = alerts(page)[0]
    for later in ("2026-11-20T09:45:00Z", "2026-11-20T09:45:00Z", "2026-11-20T10:00:00Z"):
        push(filled_in(text, **{"{{timenow}}": later}).encode(), secret=bot.secret)
    assert Signal.objects.count() == 2


def test_the_nonce_fits_with_the_longest_names(page, bot):
    text = filled_in(alerts(page)[0], **{"{{strategy.position_size}}": "9" * 40})
    assert push(text.encode(), secret=bot.secret).status_code == 200


def test_the_page_offers_the_relay_and_its_settings(page):
    for name in ("relay.py", "relay.worker.js"):
        address = re.search(rf'href="([^"]+)" download="{name}"', source(page)).group(1)
        assert finders.find(address.removeprefix(settings.STATIC_URL))
        assert read(page, "settings") == {
            "RELAY_SECRET": "",
            "RELAY_HOOK": "http://testserver/api/hooks/signal",
            "RELAY_PATH": path_of(page),
            "RELAY_URL": "https://relay.example.com",
            "RELAY_LISTEN": "127.0.0.1:8080",
            "RELAY_PROXY": "127.0.0.1",
        }


def text_of(page, name):
    """The text to copy with this id."""
    return html.unescape(re.search(rf'<pre id="{name}"[^>]*>(.*?)</pre>', source(page), re.S)[1])


def read(page, name):
    return dict(line.split("=", 1) for line in text_of(page, name).splitlines())


def path_of(page):
    return read(page, "settings")["RELAY_PATH"]


def test_the_same_path_is_in_every_text_and_fits_the_relay(page):
    path = path_of(page)
    assert re.fullmatch("/[A-Za-z0-9_-]{32}", path)
    assert text_of(page, "webhook") == f"https://relay.example.com{path}"
    assert f"location = {path} {{" in text_of(page, "nginx")
    assert f"handle {path} {{" in text_of(page, "caddy")
    assert read(page, "variables")["RELAY_PATH"] == path


def test_the_path_stays_and_differs_between_bots(page, desk, bot, stranger):
    again = signed_in(desk.user).get(f"/bots/{bot.id}/tradingview")
    assert path_of(again) == path_of(page)
    for owner in (desk, stranger):
        other = a_bot(owner)
        theirs = signed_in(owner.user).get(f"/bots/{other.id}/tradingview")
        assert path_of(theirs) != path_of(page)


def test_the_host_name_is_filled_in_everywhere(desk, bot):
    browser = signed_in(desk.user)
    page = browser.get(f"/bots/{bot.id}/tradingview", {"host": "alerts.trader.example"})
    assert "relay.example.com" not in "".join(copied(page))
    assert read(page, "settings")["RELAY_URL"] == "https://alerts.trader.example"
    assert "server_name alerts.trader.example;" in text_of(page, "nginx")
    assert text_of(page, "caddy").startswith("alerts.trader.example {")
    assert text_of(page, "webhook").startswith("https://alerts.trader.example/")


@pytest.mark.parametrize("path", ["", "/", "/x?y#z", "?y", "#z"])
def test_of_an_address_the_host_name_is_filled_in(desk, bot, path):
    host = f"https://alerts.trader.example{path}"
    page = signed_in(desk.user).get(f"/bots/{bot.id}/tradingview", {"host": host})
    assert errors(page) == []
    assert text_of(page, "webhook").startswith("https://alerts.trader.example/")


@pytest.mark.parametrize(
    "host",
    [
        *("", "a b.example", "x.example;", "a.example\nb", "é.example", "."),
        *("https://", "https://a.example:8443", "https://me@a.example", "ftp://a.example"),
    ],
)
def test_a_host_that_is_no_name_is_refused_and_not_filled_in(desk, bot, host):
    page = signed_in(desk.user).get(f"/bots/{bot.id}/tradingview", {"host": host})
    assert (page.status_code, len(errors(page))) == (200, 1)
    assert text_of(page, "webhook").startswith("https://relay.example.com/")


def test_the_unit_starts_the_downloaded_file_with_the_settings(page):
    unit = text_of(page, "unit")
    program = re.search("^ExecStart=/usr/bin/python3 -I (.+)$", unit, re.M)[1]
    settings_file = re.search("^EnvironmentFile=(.+)$", unit, re.M)[1]
    install = text_of(page, "install")
    assert f"curl -fsSo {program} 'http://testserver/static/relay" in install
    assert f"sudo install -m 600 /dev/null {settings_file}" in install
    for other in ("start", "container", "check"):
        assert program in text_of(page, other)
        assert settings_file in text_of(page, other)


def test_the_check_sends_the_message_of_the_alert(page):
    for name in ("check", "check-worker"):
        command, _, message = text_of(page, name).partition("<<'END'\n")
        assert "--check" in command
        assert message.removesuffix("\nEND") == alerts(page)[0]


def test_the_mistakes_of_a_message_are_linked_and_explained(page, client):
    named = set(re.findall(r'href="/problems/([a-z_]+)"', source(page)))
    assert {"ticker_only", "pair_mismatch", "invalid", "not_elected"} <= named
    for code in named:
        assert client.get(f"/problems/{code}").status_code == 200


# --- What became of the latest alert --------------------------------------------------------------


def heard(desk, bot):
    """What the page says of the latest alert."""
    text = words(signed_in(desk.user).get(f"/bots/{bot.id}/tradingview"))
    return text[: text.index("Do you have a server?")]


def test_what_the_page_of_a_secret_sends_is_no_alert(desk, bot):
    shown = signed_in(desk.user).post(f"/bots/{bot.id}/secret", {"overlap": "3600"})
    own = re.search(r'data-nonce="([^"]+)"', source(shown))[1]  # as static/js/send.js begins nonces
    for number, direction in enumerate(["short", "long"]):
        push(tradingview(bot, nonce=f"{own}{number}", direction=direction), secret=bot.secret)
    assert Signal.objects.filter(nonce=f"{own}0").exists()
    assert "Waiting for your first alert" in heard(desk, bot)
    assert "(done)" not in heard(desk, bot)

    push(tradingview(bot, nonce="60-2026-11-24T09:30:00Z"), secret=bot.secret)
    push(tradingview(bot, nonce=f"{own}2"), secret=bot.secret)
    assert "The latest alert" in heard(desk, bot)
    assert "with the nonce 60-2026-11-24T09:30:00Z" in heard(desk, bot)
    assert heard(desk, bot).count("(done)") == 3


def test_a_message_without_a_valid_signature_is_no_alert(desk, bot):
    push(tradingview(bot), secret="svc_sign_wrong")
    assert "A message without a valid signature" in heard(desk, bot)
    assert "(done)" not in heard(desk, bot)

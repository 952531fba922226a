"""The control area's pages of signals."""

import pytest
from django.test import Client

from signals import control
from signals.models import Signal
from tests import factories, staff
from tests.client import push
from tests.signals import bodies

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> Client:
    return staff.a_client()


def found(client: Client, text: str = "") -> list[str]:
    response = client.get(staff.list_of(Signal), {"q": text})
    assert response.status_code == 200
    return [signal.public_id for signal in response.context["cl"].result_list]


def sent(*args: object, **more: object) -> str:
    """The id of a signal that was accepted."""
    return str(push(*args, **more).json()["signal"]["id"])  # type: ignore[arg-type]


def test_the_newest_signal_comes_first(client, desk):
    engine = factories.a_platform_token()
    ids = [sent(bodies.fanout(), engine) for _ in range(3)]
    assert found(client) == ids[::-1]


def test_signals_are_found_by_id_nonce_desk_and_bot(client, desk, stranger):
    engine, bot = factories.a_platform_token(), factories.a_bot(desk)
    everybody = sent(bodies.fanout(nonce="n-all"), engine)
    one = sent(bodies.floor(stranger, nonce="n-one"), engine)
    nox = sent(bodies.nox(action_id="act_1"), engine)
    bots = sent(bodies.tradingview(bot, nonce="n-bot"), secret=bot.secret)
    for text, expected in (
        (everybody, [everybody]),
        ("n-all", [everybody]),
        ("act_1", [nox]),
        ("n-bot", []),
        (stranger.public_id, [one]),
        (desk.public_id, [bots]),
        (bot.id, [bots]),
        (f"{bot.id} n-bot", [bots]),
        (f"{bot.id} n-all", []),
        ("n-none", []),
    ):
        assert found(client, text) == expected, text


def test_of_a_desk_the_newest_signals_are_found(client, desk, monkeypatch):
    monkeypatch.setattr(control, "MOST_OF_A_DESK", 2)
    engine = factories.a_platform_token()
    ids = [sent(bodies.floor(desk), engine) for _ in range(3)]
    assert found(client, desk.public_id) == ids[:0:-1]


def test_a_signal_is_shown_whole(client, desk):
    sent(bodies.nox(trace_id="trc_9", rationale="<b>The trend</b>"), factories.a_platform_token())
    page = client.get(staff.page_of(Signal.objects.get())).content.decode()
    assert "trc_9" in page
    assert "&lt;b&gt;The trend&lt;/b&gt;" in page

"""A pair that was typed in another form is refused with the right form as a question."""

import pytest

from desks.forms import WRONG_FORM, ElectionForm, suggested_pair

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("typed", "suggested"),
    [
        ("btcusdt", "BTC/USDT"),
        ("BTC-USDT", "BTC/USDT"),
        ("btc/usdt", "BTC/USDT"),
        ("BTC_USDT", "BTC/USDT"),
        (" eth : eur ", "ETH/EUR"),
        ("KRAKEN:BTC:USD", None),
        ("BTC", None),
        ("BTCUSDT.P", "BTC/USDT"),
        ("BINANCE:BTCUSDT.P", "BTC/USDT"),
        ("BTC:USDT", "BTC/USDT"),
        ("USDT", None),
        ("", None),
        ("FOOBAR", None),
        ("₿TC/USDT", None),
    ],
)
def test_the_right_form_is_suggested_where_it_is_clear(typed, suggested):
    assert suggested_pair(typed) == suggested


REFUSED = [
    "",
    "BTCUSDT",
    "btc/usdt",
    "BTC/",
    "/USDT",
    "A/B/C",
    "BTC /USDT",
    "Б/USDT",
    "x",
    "A" * 42,
]
REFUSED += ["A" * 21 + "/USDT", "BTC/USDT\n/"]


@pytest.mark.parametrize("typed", REFUSED)
def test_another_form_is_refused(typed):
    assert list(ElectionForm({"pair": typed, "direction": "long"}).errors) == ["pair"]


@pytest.mark.parametrize("typed", ["btcusdt", "BTC-USDT"])
def test_the_form_asks_and_fills_in_nothing(typed):
    form = ElectionForm({"pair": typed, "direction": "long"})
    assert form.errors["pair"] == [f"{WRONG_FORM} Did you mean BTC/USDT?"]
    assert form["pair"].value() == typed


def test_a_pair_in_its_form_is_accepted():
    assert ElectionForm({"pair": "BTC-PERP/USDT.D", "direction": "long"}).is_valid()

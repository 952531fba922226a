"""The rules of the law, each with its refusal (contract, sections 4 and 5)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from desks.pair_and_direction import PairAndDirection
from events.http.refusals import ExchangeSecret, Invalid
from signals.law import rules
from signals.law.refusals import (
    DeskNotReady,
    DirectionMismatch,
    ModeRefused,
    NoCard,
    NotElected,
    PairMismatch,
    SignalTooOld,
    TickerOnly,
)
from signals.law.signal_body import Mode, Submission
from tests.signals.bodies import deploy, fanout
from tokens.choices import Source

pytestmark = pytest.mark.once

CARD: PairAndDirection = {"pair": "BTC/USDT", "direction": "long"}
OTHER: PairAndDirection = {"pair": "ETH/USDT", "direction": "short"}


def submission(**changes) -> Submission:
    said = {"source": Source.FLOOR, "pair": "BTC/USDT", "direction": "long", "nonce": "1"}
    return Submission(**{**said, **changes})


# --- What no body may carry or leave out --------------------------------------------------------


def test_a_lawful_body_passes():
    rules.check_body(fanout())
    rules.check_body(deploy(ticker="BTCUSDT", symbol="BTCUSDT"))


@pytest.mark.parametrize("name", ["ticker", "symbol"])
@pytest.mark.parametrize("left_out", ["pair", "direction"])
def test_a_ticker_without_pair_or_direction_is_ticker_only(name, left_out):
    for missing in ({}, {left_out: None}):
        body = {key: value for key, value in deploy().items() if key != left_out}
        with pytest.raises(TickerOnly):
            rules.check_body({**body, **missing, name: "BTCUSDT"})


@pytest.mark.parametrize("pair", ["BTCUSDT", "", "BINANCE:BTCUSDT", "BTC-USDT", "BTC\\USDT"])
def test_a_pair_without_a_slash_is_ticker_only(pair):
    with pytest.raises(TickerOnly):
        rules.check_body(deploy(pair=pair))


@pytest.mark.parametrize("pair", [None, 5, ["BTCUSDT"], "btc/usdt"])
def test_a_pair_that_is_missing_or_of_another_form_is_not_ticker_only(pair):
    rules.check_body(deploy(pair=pair, ticker=None))


@pytest.mark.parametrize("mode", ["armed", "live"])
def test_armed_and_live_are_refused(mode):
    with pytest.raises(ModeRefused):
        rules.check_body(deploy(mode=mode))


@pytest.mark.parametrize("mode", ["ARMED", "Live", "", None, ["live"], {"live": 1}, 5])
def test_the_law_does_not_check_other_modes(mode):
    rules.check_body(deploy(mode=mode))


@pytest.mark.parametrize("elected", [False, None, 1, "true", "True", [True], {}, 0])
def test_elected_must_be_json_true(elected):
    with pytest.raises(NotElected):
        rules.check_body(deploy(elected=elected))


def test_a_secret_is_refused_before_anything_else():
    with pytest.raises(ExchangeSecret):
        rules.check_body({"deep": [{"api_key": 1}], "ticker": "X", "mode": "live"})


# --- What a signal has to repeat ----------------------------------------------------------------


def match(sent: Submission, **elected: Any) -> None:
    rules.check_match(sent, rules.required_election(sent, **elected))


def test_a_signal_to_one_desk_repeats_that_desks_election():
    match(submission(user_id="usr_1"), card=OTHER, elected=CARD)
    for reason in DeskNotReady.REASONS:
        for wide in (False, True):
            with pytest.raises(DeskNotReady) as refused:
                match(submission(user_id="usr_1", fanout=wide), card=CARD, not_ready=reason)
            assert refused.value.members == {"reason": reason}
            assert refused.value.detail == DeskNotReady.REASONS[reason]


@pytest.mark.parametrize("user_id", [None, "usr_1"])
def test_a_draft_repeats_the_published_card_even_if_it_names_a_desk(user_id):
    draft = submission(source=Source.NOX, mode=Mode.DRAFT, user_id=user_id)
    match(draft, card=CARD)
    with pytest.raises(NoCard):
        match(draft, elected=CARD)


@pytest.mark.parametrize(
    ("sent", "refusal"),
    [
        ({"pair": "ETH/USDT", "direction": "short"}, PairMismatch),
        ({"pair": "BTC/USDT", "direction": "short"}, DirectionMismatch),
    ],
)
def test_the_pair_is_compared_before_the_direction_and_what_differs_is_shown(sent, refusal):
    with pytest.raises(refusal) as refused:
        match(submission(fanout=True, **sent), card=CARD)
    assert refused.value.members == {"sent": sent, "elected": CARD}


# --- How old a signal may be ----------------------------------------------------------------------

AT = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
MINUTE, MOMENT = timedelta(minutes=1), timedelta(microseconds=1)


def test_a_signal_may_be_as_old_as_the_maximum_or_from_the_future_and_no_older():
    for sent_at in (AT - MINUTE, AT + 100 * MINUTE):
        rules.check_age(submission(sent_at=sent_at), MINUTE, AT)
    with pytest.raises(SignalTooOld):
        rules.check_age(submission(sent_at=AT - MINUTE - MOMENT), MINUTE, AT)


def test_without_a_maximum_no_signal_is_too_old_and_none_must_say_its_age():
    rules.check_age(submission(sent_at=AT - timedelta(days=365)), None, AT)
    rules.check_sent_at(submission(), None)


def test_with_a_maximum_a_signal_must_say_when_it_was_sent():
    rules.check_sent_at(submission(sent_at=AT), MINUTE)
    with pytest.raises(Invalid) as refused:
        rules.check_sent_at(submission(), MINUTE)
    assert [error["field"] for error in refused.value.members["errors"]] == ["sentAt"]

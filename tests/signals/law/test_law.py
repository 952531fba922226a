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
    NoElection,
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


def test_a_ticker_of_null_counts_as_absent():
    rules.check_body({**deploy(pair=None), "ticker": None})


@pytest.mark.parametrize("pair", ["BTCUSDT", "", "BINANCE:BTCUSDT", "BTC-USDT", "BTC\\USDT"])
def test_a_pair_without_a_slash_is_ticker_only(pair):
    with pytest.raises(TickerOnly):
        rules.check_body(deploy(pair=pair))


@pytest.mark.parametrize("pair", [None, 5, ["BTCUSDT"], "btc/usdt"])
def test_a_missing_or_non_text_pair_is_not_ticker_only(pair):
    rules.check_body(deploy(pair=pair))


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


def test_elected_is_required():
    with pytest.raises(NotElected):
        rules.check_body({name: value for name, value in deploy().items() if name != "elected"})


def test_a_secret_is_refused_before_anything_else():
    with pytest.raises(ExchangeSecret):
        rules.check_body({"deep": [{"api_key": 1}], "ticker": "X", "mode": "live"})


# --- What a signal has to repeat ----------------------------------------------------------------


def match(sent: Submission, **elected: Any) -> None:
    rules.check_match(sent, rules.required_election(sent, **elected))


def test_a_bot_repeats_its_own_election_whatever_the_card_is():
    sent = submission(bot_id="bot_1", pair="ETH/USDT", direction="short")
    match(sent, card=CARD, elected=OTHER)
    with pytest.raises(NoElection):
        match(sent, card=CARD)


def test_a_signal_to_one_desk_repeats_that_desks_election():
    match(submission(user_id="usr_1"), card=OTHER, elected=CARD)
    for reason in DeskNotReady.REASONS:
        for wide in (False, True):
            with pytest.raises(DeskNotReady) as refused:
                match(submission(user_id="usr_1", fanout=wide), card=CARD, not_ready=reason)
            assert refused.value.members == {"reason": reason}
            assert refused.value.detail == DeskNotReady.REASONS[reason]


def test_a_fan_out_repeats_the_published_card():
    match(submission(fanout=True), card=CARD)
    with pytest.raises(NoCard):
        match(submission(fanout=True))


@pytest.mark.parametrize("user_id", [None, "usr_1"])
def test_a_draft_repeats_the_published_card_even_if_it_names_a_desk(user_id):
    draft = submission(source=Source.NOX, mode=Mode.DRAFT, user_id=user_id)
    match(draft, card=CARD)
    with pytest.raises(NoCard):
        match(draft, elected=CARD)


def test_another_pair_is_refused_before_another_direction_and_both_are_shown():
    with pytest.raises(PairMismatch) as refused:
        match(submission(fanout=True), card=OTHER)
    assert refused.value.members == {
        "sent": {"pair": "BTC/USDT", "direction": "long"},
        "elected": {"pair": "ETH/USDT", "direction": "short"},
    }


def test_another_direction_is_refused_and_both_are_shown():
    with pytest.raises(DirectionMismatch) as refused:
        match(submission(fanout=True, direction="short"), card=CARD)
    assert refused.value.members == {
        "sent": {"pair": "BTC/USDT", "direction": "short"},
        "elected": {"pair": "BTC/USDT", "direction": "long"},
    }


@pytest.mark.parametrize("pair", ["BTC/USD", "BTC/USDT.", "XBTC/USDT", "BTC-/USDT", "USDT/BTC"])
def test_pairs_are_compared_exactly(pair):
    with pytest.raises(PairMismatch):
        match(submission(fanout=True, pair=pair), card=CARD)


# --- How old a signal may be ----------------------------------------------------------------------

AT = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
MINUTE, MOMENT = timedelta(minutes=1), timedelta(microseconds=1)


def test_a_signal_may_be_as_old_as_the_maximum_and_no_older():
    rules.check_age(submission(sent_at=AT - MINUTE), MINUTE, AT)
    with pytest.raises(SignalTooOld):
        rules.check_age(submission(sent_at=AT - MINUTE - MOMENT), MINUTE, AT)


def test_a_signal_from_the_future_counts_as_new():
    rules.check_age(submission(sent_at=AT + 100 * MINUTE), MINUTE, AT)


def test_without_a_maximum_no_signal_is_too_old_and_none_must_say_its_age():
    rules.check_age(submission(sent_at=AT - timedelta(days=365)), None, AT)
    rules.check_sent_at(submission(), None)


def test_with_a_maximum_a_signal_must_say_when_it_was_sent():
    rules.check_sent_at(submission(sent_at=AT), MINUTE)
    with pytest.raises(Invalid) as refused:
        rules.check_sent_at(submission(), MINUTE)
    assert [error["field"] for error in refused.value.members["errors"]] == ["sentAt"]

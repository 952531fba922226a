"""Section 4, POST /api/hooks/signal, source floor: a fan-out, or a deploy."""

import pytest

from tests.conformance.client import assert_refused, became, faults


def ids(desks):
    return sorted(desk["userId"] for desk in desks)


def test_a_fan_out_fills_every_ready_desk(service):
    """The customer's section 4, shape 3: one signal fills every matching paper election."""
    body = service.fanout()
    assert set(body) == {"fanout", "pair", "direction", "nonce", "elected", "source"}
    answer = service.push(body, service.platform)
    ready = ids(service.desks(ready="1"))
    assert became(answer) == ("filled", len(ready), len(ready))
    signal = answer.json()["signal"]
    assert (signal["fanout"], signal["userId"]) == (True, None)
    assert ids(service.desks(signal=signal["id"])) == ready


def test_with_a_user_id_it_reaches_that_desk_only(service):
    """The customer's section 4, shape 3."""
    answer = service.push(service.fanout(userId=service.desk), service.platform)
    assert became(answer) == ("filled", 1, 1)
    signal = answer.json()["signal"]
    assert (signal["fanout"], signal["userId"]) == (True, service.desk)
    assert ids(service.desks(signal=signal["id"])) == [service.desk]


@pytest.mark.parametrize("changes", [{}, {"fanout": False}, {"fanout": None}, {"mode": None}])
def test_without_fanout_it_is_a_deploy(service, changes):
    """Section 4: fanout false or absent."""
    answer = service.push(service.to_desk(**changes), secret=service.floor)
    assert became(answer) == ("filled", 1, 1)
    signal = answer.json()["signal"]
    assert (signal["fanout"], signal["userId"]) == (False, service.desk)


@pytest.mark.once
@pytest.mark.parametrize("changes", [{}, {"fanout": False}, {"fanout": None}, {"userId": None}])
def test_without_fanout_a_user_id_is_required(service, changes):
    answer = service.push(service.one_desk(**changes), service.platform)
    assert_refused(answer, 422, "invalid")
    assert faults(answer) == {"userId"}


@pytest.mark.parametrize("shape", ["fanout", "to_desk"])
def test_the_desk_must_be_ready(service, idle, shape):
    """Section 4: which must be ready; a fan-out of all leaves the others out."""
    body = getattr(service, shape)(userId=idle)
    assert_refused(service.push(body, service.platform), 422, "desk_not_ready")


def test_a_fan_out_matches_elections_on_the_card_and_none_on_a_bot(service, bot):
    """Section 4: the engine runs the desks that enrolled in the card."""
    bot.elect("AAA/BBB", "long")
    body = service.fanout(pair="AAA/BBB", direction="long")
    assert_refused(service.push(body, service.platform), 422, "pair_mismatch")


@pytest.mark.parametrize("shape", ["fanout", "to_desk"])
def test_it_must_repeat_the_card(service, shape):
    """Section 4: pair and direction; section 5 tells what was sent and what is elected."""
    other = "short" if service.elected["direction"] == "long" else "long"
    for changes, code in (
        ({"pair": "NOT/IT"}, "pair_mismatch"),
        ({"direction": other}, "direction_mismatch"),
        ({"pair": "NOT/IT", "direction": other}, "pair_mismatch"),
    ):
        body = getattr(service, shape)(**changes)
        result = assert_refused(service.push(body, service.platform), 422, code)
        assert result["elected"] == service.elected
        assert result["sent"] == {**service.elected, **changes}


@pytest.mark.once
@pytest.mark.parametrize("mode", ["draft", "dry_run"])
def test_mode_is_paper_or_absent(service, mode):
    answer = service.push(service.fanout(mode=mode), service.platform)
    assert_refused(answer, 422, "invalid")
    assert faults(answer) == {"mode"}


@pytest.mark.once
def test_every_fault_is_named_at_once(service):
    """Section 5: errors, each with field, code and detail."""
    body = service.fanout(direction="up", nonce="a b", mode="draft", pair="a/b")
    answer = service.push(body, service.platform)
    assert_refused(answer, 422, "invalid")
    assert faults(answer) == {"direction", "nonce", "mode", "pair"}
    assert all(set(error) == {"field", "code", "detail"} for error in answer.json()["errors"])


@pytest.mark.once
@pytest.mark.parametrize("elected", [None, False, "true"])
def test_elected_is_json_true(service, elected):
    """The customer's section 2, signal: must be true; section 5: not_elected."""
    body = service.fanout(elected=elected)
    assert_refused(service.push(body, service.platform), 422, "not_elected")


@pytest.mark.once
@pytest.mark.parametrize("mode", ["armed", "live"])
@pytest.mark.parametrize("shape", ["fanout", "to_desk", "of_nox", "tradingview", "one_desk"])
def test_the_modes_armed_and_live_are_refused(service, shape, mode):
    """The customer's section 1, 4; section 5: mode_refused, on every shape."""
    body = getattr(service, shape)(mode=mode)
    if shape == "one_desk":
        answer = service.deploy(service.desk, body)
    elif shape == "tradingview":
        answer = service.push(body, secret=service.bot["secret"])
    else:
        answer = service.push(body, service.platform)
    assert_refused(answer, 422, "mode_refused")

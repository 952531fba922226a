"""What each field of a signal takes (contract, section 4)."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.http.refusals import Invalid
from events.http.strict_json import Number
from signals.law import signal_body
from signals.law.signal_body import Mode
from tests.signals.bodies import deploy, fanout, nox

pytestmark = pytest.mark.once

USER_ID = "usr_" + "0" * 22


def floor(**changes):
    return {**deploy(userId=USER_ID), **changes}


def bot(**changes):
    return {**deploy(botId="bot_1", source="tradingview"), **changes}


def without(body, *names):
    return {name: value for name, value in body.items() if name not in names}


def faults(body, deploy_to=None) -> dict[str, str]:
    """The faults of a body, by field."""
    with pytest.raises(Invalid) as refused:
        signal_body.read(body, deploy_to)
    return {fault["field"]: fault["code"] for fault in refused.value.members["errors"]}


# --- Pair and direction -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pair", ["A/B", "BTC/USDT", "1INCH/USD-T", "A.B_C-9/X", "A" * 20 + "/" + "9" * 20]
)
def test_a_pair_is_base_and_quote_of_1_to_20_characters_each(pair):
    assert signal_body.read(fanout(pair=pair)).pair == pair


@pytest.mark.parametrize(
    "pair",
    [
        "/",
        "A/",
        "/B",
        "BTC/usdt",
        "BTC/USDT/X",
        " BTC/USDT",
        "BTC/USDT\n",
        "A" * 21 + "/B",
        "A/" + "B" * 21,
        "BTC:USDT/X",
        "BTĊ/USDT",
        "\uff22TC/USDT",
        "٣/A",
        "",
        5,
        ["BTC/USDT"],
        True,
    ],
)
def test_anything_else_is_not_a_pair(pair):
    assert faults(fanout(pair=pair)) == {"pair": "form"}


@pytest.mark.parametrize("direction", ["Long", "LONG", "buy", "", " long", 1, ["long"], True, {}])
def test_a_direction_is_long_or_short(direction):
    assert faults(fanout(direction=direction)) == {"direction": "choice"}
    assert signal_body.read(fanout(direction="short")).direction == "short"


# --- Mode ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [bot, floor, fanout])
def test_mode_is_absent_null_or_paper_except_for_nox(body):
    assert signal_body.read(without(body(), "mode")).mode == Mode.PAPER
    assert signal_body.read(body(mode=None)).mode == Mode.PAPER
    assert signal_body.read(body(mode="paper")).mode == Mode.PAPER
    for mode in ("draft", "dry_run", "Paper", "", 1, ["paper"], True):
        assert faults(body(mode=mode)) == {"mode": "choice"}


# --- Who it is for ------------------------------------------------------------------------------


@pytest.mark.parametrize("fanout_", ["true", 1, 0, "", [], {}])
def test_fanout_is_a_boolean(fanout_):
    assert "fanout" in faults(floor(fanout=fanout_))
    assert "fanout" in faults(deploy(fanout=fanout_), USER_ID)


@pytest.mark.parametrize("user_id", [5, True, ["usr_1"], {}, "x" * 129])
def test_a_user_id_is_text(user_id):
    for body in (floor, fanout, nox):
        assert "userId" in faults(body(userId=user_id))
    assert "userId" in faults(deploy(userId=user_id), USER_ID)


@pytest.mark.parametrize("source", ["Floor", "engine", "", None, 5, ["floor"], {}])
def test_an_unknown_source_is_invalid(source):
    assert "source" in faults(fanout(source=source))
    assert "source" in faults(deploy(source=source), USER_ID)


def test_the_deploy_path_is_for_its_own_desk_and_source_floor():
    body = deploy(fanout=True, userId="usr_other", source="nox")
    assert faults(body, USER_ID) == {
        "fanout": "contradiction",
        "userId": "contradiction",
        "source": "choice",
    }


# --- Nonces and ids -----------------------------------------------------------------------------


@pytest.mark.parametrize("nonce", ["1", "x" * 128, "!~", "a/b?c=d&e#f", "{{timenow}}"])
def test_a_nonce_is_1_to_128_visible_ascii_characters(nonce):
    for body in (bot, floor, fanout):
        assert signal_body.read(body(nonce=nonce)).nonce == nonce
    assert signal_body.read(deploy(nonce=nonce), USER_ID).nonce == nonce


@pytest.mark.parametrize(
    "nonce", ["", "x" * 129, "a b", " a", "a\n", "é", "\x7f", "\x1f", 5, True, ["n"], {}, 1.5]
)
def test_anything_else_is_not_a_nonce(nonce):
    for body in (bot, floor, fanout):
        assert faults(body(nonce=nonce)) == {"nonce": "form"}
    assert faults(nox(action_id=nonce, trace_id=nonce)) == {"action_id": "form", "trace_id": "form"}


def test_the_ids_of_nox_have_their_prefixes():
    for wrong in ("n-1", "ACT_1", "act", "act_"):
        assert faults(nox(action_id=wrong)) == {"action_id": "form"}
    for wrong in ("act_1", "trc_"):
        assert faults(nox(trace_id=wrong)) == {"trace_id": "form"}


@pytest.mark.parametrize(
    "sent_at", ["", "now", "2026-11-20", "2026-11-20T09:30:00", 1763630000, True, [], {}]
)
def test_the_time_of_a_bots_signal_is_of_rfc_3339(sent_at):
    assert set(faults(bot(sentAt=sent_at))) == {"sentAt"}
    assert signal_body.read(bot(sentAt="2026-11-20T09:30:00+05:30")).sent_at.isoformat() == (
        "2026-11-20T04:00:00+00:00"
    )
    assert signal_body.read(bot(sentAt=None)).sent_at is None


# --- What nox says beside it --------------------------------------------------------------------


@pytest.mark.parametrize(
    "amount",
    [
        "100.50",
        "999999999999999.99999999",
        "1E-8",
        "1.5E+3",
        "1.000000000",
        "100e-10",
        "1." + "0" * 60_000,
        "1" + "0" * 60_000 + "e-60000",
    ],
)
def test_a_size_has_at_most_15_digits_before_and_8_after_the_point(amount):
    assert signal_body.read(nox(size_quote=Number(amount))).size_quote == Decimal(amount)


@pytest.mark.parametrize(
    "amount",
    [
        "0",
        "-0",
        "-1",
        "0.000000001",
        "1." + "0" * 60_000 + "1",
        "1000000000000000",
        "1E-9",
        "1E+" + "9" * 60_000,
        "1E-" + "9" * 60_000,
        "0E" + "9" * 40,
        "999999999999999.999999999",
    ],
)
def test_a_size_out_of_its_bounds_is_invalid(amount):
    assert faults(nox(size_quote=Number(amount))) == {"size_quote": "range"}


@pytest.mark.parametrize("amount", ["1", "", True, False, [1], {}])
def test_a_size_is_a_number(amount):
    assert faults(nox(size_quote=amount)) == {"size_quote": "type"}


def test_a_size_may_be_a_whole_number():
    assert signal_body.read(nox(size_quote=10**15 - 1)).size_quote == Decimal(10**15 - 1)
    assert faults(nox(size_quote=10**15)) == {"size_quote": "range"}
    assert faults(nox(size_quote=0)) == {"size_quote": "range"}


@pytest.mark.parametrize("number", [*range(1, 9), 11, 12, 13, *range(14, 32), *range(0x7F, 0xA0)])
def test_a_rationale_has_no_control_character_except_newline_and_tab(number):
    assert faults(nox(rationale=f"a{chr(number)}b")) == {"rationale": "characters"}


@pytest.mark.parametrize(
    ("sent", "stored"), [("a\r\nb", "a\nb"), ("\r\n\r\n", "\n\n"), ("a\n\r\nb\t", "a\n\nb\t")]
)
def test_a_crlf_of_a_rationale_is_read_as_a_newline(sent, stored):
    assert signal_body.read(nox(rationale=sent)).rationale == stored


@pytest.mark.parametrize("rationale", ["a\rb", "a\r", "\r\r\n", "a\n\r", "\r\n\x00"])
def test_any_other_carriage_return_is_a_control_character(rationale):
    assert faults(nox(rationale=rationale)) == {"rationale": "characters"}


def test_a_decision_ref_is_any_text():
    assert signal_body.read(nox(decision_ref="é\t\n\x01")).decision_ref == "é\t\n\x01"
    for wrong in (5, True, ["x"], {}):
        assert faults(nox(decision_ref=wrong, rationale=wrong)) == {
            "decision_ref": "type",
            "rationale": "type",
        }


# --- Faults ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "field", "detail"),
    [
        (fanout(direction="up"), "direction", "Send one of: long, short."),
        (fanout(source="x"), "source", "Send one of: tradingview, floor, nox."),
        (nox(mode="x"), "mode", "Send one of: draft, dry_run, paper."),
        (floor(userId="x" * 129), "userId", "Send at most 128 characters."),
        (nox(action_id="1"), "action_id", "Send act_ and 1 to 124 visible ASCII characters."),
        (nox(size_quote=0), "size_quote", "Send a number above 0 with at most 15 digits."),
        (
            nox(size_quote=Number("0.123456789")),
            "size_quote",
            "Send at most 8 digits after the point.",
        ),
    ],
)
def test_a_fault_says_what_to_send(body, field, detail):
    with pytest.raises(Invalid) as refused:
        signal_body.read(body)
    told = {fault["field"]: fault["detail"] for fault in refused.value.members["errors"]}
    assert told[field] == detail


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.decimals(allow_nan=False, allow_infinity=False).map(lambda number: Number(str(number)))
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
NAMES = sorted({*signal_body.NOX.members, *signal_body.AUTOMATION.members})


@given(
    st.dictionaries(st.sampled_from(NAMES), json_values),
    st.sampled_from(["tradingview", "floor", "nox"]),
    st.sampled_from([None, USER_ID]),
)
def test_any_body_is_read_or_refused_and_never_an_exception(body, source, deploy_to):
    try:
        read = signal_body.read({**body, "source": source}, deploy_to)
    except Invalid:
        return
    assert 1 <= len(read.nonce) <= 128

"""Parsing the four shapes of a signal (contract, section 4)."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.http.refusals import Invalid
from events.http.strict_json import Number
from signals.intake.decision import signer_of
from signals.law import signal_body
from signals.law.signal_body import Mode
from tests.signals.bodies import deploy, fanout, nox
from tokens.choices import Source

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


# --- The four shapes ----------------------------------------------------------------------------


def test_an_automations_signal():
    read = signal_body.read(bot())
    assert (read.source, read.bot_id, read.mode) == (Source.TRADINGVIEW, "bot_1", Mode.PAPER)
    assert (read.fanout, read.user_id, read.has_target) == (False, None, True)
    assert signer_of(read) == "bot_1"


def test_a_deploy_to_the_desk_of_the_path():
    read = signal_body.read(deploy(), USER_ID)
    assert (read.source, read.user_id, read.fanout) == (Source.FLOOR, USER_ID, False)
    assert signer_of(read) == "floor"


def test_the_deploy_on_the_hook_names_its_desk_and_shares_the_signer():
    read = signal_body.read(floor())
    assert (read.user_id, read.fanout, signer_of(read)) == (USER_ID, False, "floor")


def test_a_fan_out_to_all_and_one_restricted_to_a_desk():
    assert signal_body.read(fanout()).user_id is None
    read = signal_body.read(fanout(userId=USER_ID))
    assert (read.fanout, read.user_id) == (True, USER_ID)


def test_nox_names_its_nonce_action_id():
    read = signal_body.read(nox(action_id="act_9", size_quote=Number("0.10"), decision_ref="d"))
    assert (read.nonce, read.trace_id, signer_of(read)) == ("act_9", "trc_1", "nox")
    assert (read.size_quote, read.decision_ref) == (Decimal("0.10"), "d")


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
        "btc/usdt",
        "BTC/usdt",
        "BTC/USDT/X",
        "BTC /USDT",
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


def test_the_deploys_mode_is_absent_null_or_paper():
    for body in (without(deploy(), "mode"), deploy(mode=None), deploy(mode="paper")):
        assert signal_body.read(body, USER_ID).mode == Mode.PAPER
    assert faults(deploy(mode="draft"), USER_ID) == {"mode": "choice"}


@pytest.mark.parametrize("mode", ["draft", "dry_run", "paper"])
def test_nox_requires_a_mode(mode):
    assert signal_body.read(nox(mode=mode)).mode == mode


def test_nox_without_a_mode_or_fanout_is_invalid():
    assert faults(nox(mode=None, fanout=None)) == {"mode": "required", "fanout": "required"}
    assert faults(without(nox(), "mode", "fanout")) == {"mode": "required", "fanout": "required"}
    assert faults(nox(mode="DRAFT", fanout="true")) == {"mode": "choice", "fanout": "type"}


# --- Who it is for ------------------------------------------------------------------------------


def test_floor_without_fanout_requires_a_desk():
    for body in (floor(), floor(fanout=False), floor(fanout=None)):
        assert signal_body.read(body).user_id == USER_ID
    for body in (without(floor(), "userId"), floor(userId=None), floor(userId=None, fanout=False)):
        assert faults(body) == {"userId": "required"}


@pytest.mark.parametrize("fanout_", ["true", 1, 0, "", [], {}])
def test_fanout_is_a_boolean(fanout_):
    assert "fanout" in faults(floor(fanout=fanout_))
    assert "fanout" in faults(deploy(fanout=fanout_), USER_ID)


@pytest.mark.parametrize("user_id", [5, True, ["usr_1"], {}, "x" * 129])
def test_a_user_id_is_text(user_id):
    for body in (floor, fanout, nox):
        assert "userId" in faults(body(userId=user_id))
    assert "userId" in faults(deploy(userId=user_id), USER_ID)


def test_the_deploy_path_does_not_fan_out_and_names_one_desk():
    assert faults(deploy(fanout=True), USER_ID) == {"fanout": "contradiction"}
    assert faults(deploy(userId="usr_other"), USER_ID) == {"userId": "contradiction"}
    for body in (deploy(fanout=False), deploy(fanout=None), deploy(userId=USER_ID)):
        assert signal_body.read(body, USER_ID).user_id == USER_ID
    assert signal_body.read(deploy(userId=None), USER_ID).user_id == USER_ID


@pytest.mark.parametrize("source", ["tradingview", "nox", "Floor", "", None, 5, ["floor"], {}])
def test_the_deploy_path_takes_source_floor_only(source):
    assert "source" in faults(deploy(source=source), USER_ID)


@pytest.mark.parametrize("source", ["Floor", "engine", "", None, 5, ["floor"], {}])
def test_an_unknown_source_is_invalid(source):
    assert "source" in faults(fanout(source=source))


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


def test_a_nonce_is_required_everywhere():
    for body in (bot, floor, fanout):
        assert faults(body(nonce=None)) == {"nonce": "required"}
        assert faults(without(body(), "nonce")) == {"nonce": "required"}
    assert faults(without(nox(), "action_id", "trace_id")) == {
        "action_id": "required",
        "trace_id": "required",
    }


def test_the_ids_of_nox_have_their_prefixes_and_at_most_128_characters():
    longest = nox(action_id="act_" + "x" * 124, trace_id="trc_" + "x" * 124)
    assert len(signal_body.read(longest).nonce) == 128
    assert faults(nox(action_id="act_" + "x" * 125)) == {"action_id": "form"}
    assert faults(nox(action_id="n-1", trace_id="act_1")) == {
        "action_id": "form",
        "trace_id": "form",
    }
    assert faults(nox(trace_id="trc_")) == {"trace_id": "form"}
    for wrong in ("ACT_1", "act", "act_", "act_a b", "act_é"):
        assert faults(nox(action_id=wrong)) == {"action_id": "form"}


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
        "0.00000001",
        "1",
        "100.50",
        "999999999999999.99999999",
        "100000000000000",
        "1E-8",
        "1E+3",
        "1.5E+3",
        "0.10000000",
        "1.000000000",
        "100e-10",
        "999999999999999.99999999000",
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
        "0.0",
        "-0",
        "-1",
        "-0.00000001",
        "0.000000001",
        "1.0000000001",
        "1." + "0" * 60_000 + "1",
        "1000000000000000",
        "1E+15",
        "1E-9",
        "1E+999",
        "-1E+999",
        "1E+" + "9" * 60_000,
        "1E-" + "9" * 60_000,
        "0E" + "9" * 40,
        "9" * 40,
        "1E-999",
        "999999999999999.999999999",
    ],
)
def test_a_size_out_of_its_bounds_is_invalid(amount):
    assert faults(nox(size_quote=Number(amount))) == {"size_quote": "range"}


@pytest.mark.parametrize("amount", ["1", "", True, False, [1], {}])
def test_a_size_is_a_number(amount):
    assert faults(nox(size_quote=amount)) == {"size_quote": "type"}


@given(st.integers(1, 10**23 - 1))
def test_every_amount_within_the_bounds_is_read_exactly(units):
    amount = Decimal(units).scaleb(-8)
    assert signal_body.read(nox(size_quote=Number(str(amount)))).size_quote == amount


def test_a_size_may_be_a_whole_number():
    assert signal_body.read(nox(size_quote=10**15 - 1)).size_quote == Decimal(10**15 - 1)
    assert faults(nox(size_quote=10**15)) == {"size_quote": "range"}
    assert faults(nox(size_quote=0)) == {"size_quote": "range"}


@pytest.mark.parametrize(
    "rationale", ["", "x" * 500, "é" * 500, "🚀" * 500, "a\nb\tc", "\u2028\u200b", "<b>&amp;</b>"]
)
def test_a_rationale_is_at_most_500_code_points_of_plain_text(rationale):
    assert signal_body.read(nox(rationale=rationale)).rationale == rationale


@pytest.mark.parametrize("rationale", ["x" * 501, "🚀" * 501])
def test_a_longer_rationale_is_invalid(rationale):
    assert faults(nox(rationale=rationale)) == {"rationale": "length"}


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


def test_the_length_of_a_rationale_is_that_of_what_was_sent():
    assert signal_body.read(nox(rationale="\r\n" * 250)).rationale == "\n" * 250
    assert faults(nox(rationale="\r\n" * 250 + "x")) == {"rationale": "length"}


def test_a_decision_ref_is_text_of_at_most_128_characters():
    for text in ("", "x" * 128, "é\t\n\x01"):
        assert signal_body.read(nox(decision_ref=text)).decision_ref == text
    assert faults(nox(decision_ref="x" * 129)) == {"decision_ref": "length"}
    for wrong in (5, True, ["x"], {}):
        assert faults(nox(decision_ref=wrong, rationale=wrong)) == {
            "decision_ref": "type",
            "rationale": "type",
        }


def test_null_is_the_same_as_absent_for_every_optional_field():
    optional = {"userId": None, "size_quote": None, "rationale": None, "decision_ref": None}
    bare = without(nox(action_id="act_1"), *optional)
    assert signal_body.read({**bare, **optional}) == signal_body.read(bare)
    for body in (bot(nonce="1"), fanout(nonce="1")):
        assert signal_body.read({**body, "mode": None}) == signal_body.read(without(body, "mode"))
    for name in ("mode", "fanout"):
        body = floor(nonce="1")
        assert signal_body.read({**body, name: None}) == signal_body.read(without(body, name))


# --- Many faults, and what is ignored -----------------------------------------------------------


def test_all_faults_are_reported_at_once():
    body = nox(pair="x/y", direction="up", action_id="1", trace_id=2, mode="x", fanout=3)
    body |= {"size_quote": "4", "rationale": 5, "decision_ref": 6, "userId": 7}
    assert set(faults(body)) == {
        "pair",
        "direction",
        "action_id",
        "trace_id",
        "mode",
        "fanout",
        "size_quote",
        "rationale",
        "decision_ref",
        "userId",
    }


SENTENCES = {
    "pair": "Write BASE/QUOTE, each 1 to 20 of A-Z 0-9 . - _",
    "nonce": "Send 1 to 128 visible ASCII characters.",
    "action": "Send act_ and 1 to 124 visible ASCII characters.",
    "trace": "Send trc_ and 1 to 124 visible ASCII characters.",
    "required": "Send this field.",
    "flag": "Send true or false.",
    "text": "Send text.",
    "number": "Send a number or null.",
    "small": "Send a number above 0 with at most 15 digits.",
    "fine": "Send at most 8 digits after the point.",
    "control": "Send plain text without control characters.",
    "fanout": "This path is for one desk. Fan out on the hook.",
    "desk": "Leave userId out, or send the one of the path: they name different desks.",
}


@pytest.mark.parametrize(
    ("body", "field", "code", "detail"),
    [
        (fanout(pair="x"), "pair", "form", SENTENCES["pair"]),
        (without(fanout(), "pair"), "pair", "required", SENTENCES["required"]),
        (fanout(direction="up"), "direction", "choice", "Send one of: long, short."),
        (without(fanout(), "direction"), "direction", "required", SENTENCES["required"]),
        (fanout(source="x"), "source", "choice", "Send one of: tradingview, floor, nox."),
        (fanout(mode="draft"), "mode", "choice", "Send one of: paper."),
        (nox(mode="x"), "mode", "choice", "Send one of: draft, dry_run, paper."),
        (fanout(fanout=1), "fanout", "type", SENTENCES["flag"]),
        (without(nox(), "fanout"), "fanout", "required", SENTENCES["required"]),
        (without(floor(), "userId"), "userId", "required", SENTENCES["required"]),
        (floor(userId=5), "userId", "type", SENTENCES["text"]),
        (floor(userId="x" * 129), "userId", "length", "Send at most 128 characters."),
        (fanout(nonce=""), "nonce", "form", SENTENCES["nonce"]),
        (without(fanout(), "nonce"), "nonce", "required", SENTENCES["required"]),
        (nox(action_id="1"), "action_id", "form", SENTENCES["action"]),
        (nox(trace_id="1"), "trace_id", "form", SENTENCES["trace"]),
        (nox(size_quote="4"), "size_quote", "type", SENTENCES["number"]),
        (nox(size_quote=0), "size_quote", "range", SENTENCES["small"]),
        (nox(size_quote=Number("0.123456789")), "size_quote", "range", SENTENCES["fine"]),
        (nox(rationale=5), "rationale", "type", SENTENCES["text"]),
        (nox(rationale="x" * 501), "rationale", "length", "Send at most 500 characters."),
        (nox(rationale="\x00"), "rationale", "characters", SENTENCES["control"]),
        (nox(decision_ref="x" * 129), "decision_ref", "length", "Send at most 128 characters."),
    ],
)
def test_each_fault_says_what_to_send(body, field, code, detail):
    with pytest.raises(Invalid) as refused:
        signal_body.read(body)
    fault = {"field": field, "code": code, "detail": detail}
    assert fault in refused.value.members["errors"]


def test_the_deploy_path_says_what_to_send():
    with pytest.raises(Invalid) as refused:
        signal_body.read(deploy(fanout=True, userId="usr_other", source="nox"), USER_ID)
    said = {(fault["field"], fault["detail"]) for fault in refused.value.members["errors"]}
    assert said == {
        ("fanout", SENTENCES["fanout"]),
        ("userId", SENTENCES["desk"]),
        ("source", "Send one of: floor."),
    }


def test_only_the_names_of_unknown_fields_are_reported():
    assert signal_body.read(fanout()).ignored == ()
    assert signal_body.read(fanout(ticker="BTCUSDT", x=1, note=None)).ignored == (
        "ticker",
        "x",
        "note",
    )


@pytest.mark.parametrize("name", ["fanout", "userId", "action_id", "rationale", "size_quote"])
def test_a_field_of_another_shape_counts_as_unknown(name):
    read = signal_body.read(bot(**{name: "whatever"}))
    assert read.ignored == (name,)
    assert (read.user_id, read.fanout, read.rationale) == (None, False, None)


def test_at_most_20_ignored_names_of_at_most_64_characters_are_reported():
    more = {f"{number:03}" + "x" * 100: number for number in range(30)}
    ignored = signal_body.read(fanout(**more)).ignored
    assert len(ignored) == 20
    assert all(len(name) == 64 for name in ignored)
    assert ignored[0].startswith("000")


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.decimals(allow_nan=False, allow_infinity=False).map(lambda number: Number(str(number)))
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
NAMES = [
    "source",
    "pair",
    "direction",
    "nonce",
    "mode",
    "fanout",
    "userId",
    "botId",
    "action_id",
    "trace_id",
    "size_quote",
]


@given(
    st.dictionaries(st.sampled_from([*NAMES, "rationale", "decision_ref"]), json_values),
    st.sampled_from(["tradingview", "floor", "nox"]),
    st.sampled_from([None, USER_ID]),
)
def test_any_body_is_read_or_refused_and_never_an_exception(body, source, deploy_to):
    try:
        read = signal_body.read({**body, "source": source}, deploy_to)
    except Invalid:
        return
    assert 1 <= len(read.nonce) <= 128

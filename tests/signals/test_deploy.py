"""POST /api/v1/desks/{userId}/signal: a signal to one desk (contract, section 4)."""

import pytest

from desks import actions as desks
from events.actors import SYSTEM
from events.models import Event
from signals.models import Signal
from tests.client import DESKS, code, deploy_path, faults, get, post, push, signed, written
from tests.factories import (
    a_connected_desk,
    a_desk_token,
    a_platform_token,
    a_ready_desk,
    a_shared_secret,
)
from tests.signals.bodies import deploy, floor, nox

pytestmark = pytest.mark.django_db


@pytest.fixture
def path(desk) -> str:
    return deploy_path(desk.public_id)


def test_a_deploy_fills_that_desk_and_no_other(engine, desk, path, card):
    a_ready_desk(card)
    response = post(path, deploy(), engine)
    assert response.status_code == 200
    answer = response.json()
    assert (answer["outcome"], answer["matched"], answer["filled"]) == ("filled", 1, 1)
    assert answer["signal"]["userId"] == desk.public_id
    assert answer["signal"]["source"] == "floor"
    assert answer["signal"]["fanout"] is False
    assert Event.objects.last().topic == desk.public_id


@pytest.mark.parametrize("body", [{"mode": None}, {"mode": "paper"}, {"fanout": False}])
def test_mode_paper_and_fanout_false_are_accepted(engine, path, body):
    assert code(post(path, deploy(**body), engine)) == "ok"
    without = {name: value for name, value in deploy().items() if name != "mode"}
    assert code(post(path, without, engine)) == "ok"


def test_the_user_id_of_the_path_may_be_repeated(engine, desk, path):
    assert code(post(path, deploy(userId=desk.public_id), engine)) == "ok"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"fanout": True}, "fanout"),
        ({"userId": "usr_" + "0" * 22}, "userId"),
        ({"userId": ""}, "userId"),
        ({"source": "nox"}, "source"),
        ({"source": "tradingview"}, "source"),
        ({"source": None}, "source"),
        ({"mode": "draft"}, "mode"),
        ({"nonce": ""}, "nonce"),
        ({"direction": "LONG"}, "direction"),
    ],
)
def test_unsupported_values_are_invalid(engine, path, change, field):
    response = post(path, deploy(**change), engine)
    assert (response.status_code, code(response)) == (422, "invalid")
    assert field in faults(response)
    assert not Signal.objects.exists()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"api_key": "x"}, "exchange_secret"),
        ({"pair": "BTCUSDT"}, "ticker_only"),
        ({"mode": "live"}, "mode_refused"),
        ({"mode": "armed"}, "mode_refused"),
        ({"elected": "true"}, "not_elected"),
        ({"pair": "ETH/USDT"}, "pair_mismatch"),
        ({"direction": "short"}, "direction_mismatch"),
    ],
)
def test_the_law_applies_to_a_deploy(engine, path, change, expected):
    assert code(post(path, deploy(**change), engine)) == expected


def test_the_desk_must_be_ready(engine, card):
    other = a_connected_desk()
    path = deploy_path(other.public_id)
    assert code(post(path, deploy(), engine)) == "desk_not_ready"
    desks.enrol(desk=other, card_id=card.pk, actor=SYSTEM)
    assert code(post(path, deploy(), engine)) == "ok"
    desks.withdraw_from_card(desk=other, actor=SYSTEM)
    assert code(post(path, deploy(), engine)) == "desk_not_ready"


def test_an_unknown_desk_is_not_found_after_the_law(engine, desk):
    unknown = deploy_path("usr_" + "0" * 22)
    assert code(post(unknown, deploy(), engine)) == "not_found"
    assert code(post(unknown, deploy(elected=False), engine)) == "not_elected"


@pytest.mark.parametrize("user_id", ["usr_1", "bot_" + "0" * 22, "usr_" + "0" * 23, "x", "%00"])
def test_a_path_with_an_invalid_user_id_is_not_found(user_id):
    response = post(f"{DESKS}/{user_id}/signal", deploy())
    assert (response.status_code, code(response)) == (404, "not_found")
    assert response["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("tail", ["/", "//", "/x"])
def test_paths_carry_no_trailing_slash(path, engine, tail):
    assert post(path + tail, deploy(), engine).status_code == 404


def test_only_post_is_allowed(path, engine):
    response = get(path, engine)
    assert (response.status_code, code(response)) == (405, "method_not_allowed")
    assert response["Allow"] == "POST, OPTIONS"


@pytest.mark.parametrize(
    "content_type", ["text/plain", "x", "/", "application/json+x", "text/json"]
)
def test_the_content_type_must_be_json(path, engine, content_type):
    response = post(path, deploy(), engine, content_type=content_type)
    assert (response.status_code, code(response)) == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        "APPLICATION/JSON",
        "application/json;",
        "application/json; charset=latin-1",
        "application/json ; x=y",
        "application/json;charset=x",
    ],
)
def test_parameters_of_the_media_type_are_ignored(path, engine, content_type):
    assert code(post(path, deploy(rationale="é"), engine, content_type=content_type)) == "ok"


def test_the_content_type_is_checked_after_the_scope_and_before_the_body(path, engine):
    assert code(post(path, b"{", a_platform_token("read"), content_type="x")) == "scope_missing"
    assert code(post(path, b"{", engine, content_type="x")) == "unsupported_media_type"
    assert code(post(path, b"{", engine)) == "malformed"


def test_a_signature_does_not_authorise_a_deploy(path):
    body = written(deploy())
    headers = signed(a_shared_secret(), body=body)
    assert code(post(path, body, headers=headers)) == "credentials_missing"


def test_a_desk_token_cannot_deploy(path, desk):
    assert code(post(path, deploy(), a_desk_token(desk))) == "not_allowed"


def test_the_deploy_and_the_hook_share_their_nonces(engine, desk, path):
    body = deploy(nonce="one")
    assert code(post(path, body, engine)) == "ok"
    assert code(push(floor(desk, nonce="one"), engine)) == "nonce_used"
    assert code(push(floor(desk, nonce="two"), engine)) == "ok"
    assert code(post(path, deploy(nonce="two"), engine)) == "nonce_used"


def test_other_shapes_are_refused(engine, path):
    assert code(post(path, nox(), engine)) == "invalid"
    body = {**deploy(), "source": "tradingview", "botId": "bot_" + "0" * 22}
    assert code(post(path, body, engine)) == "invalid"

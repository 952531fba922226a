"""POST /api/v1/desks/{userId}/signal: a signal to one desk (contract, section 4)."""

import pytest

from desks import actions as desks
from events.actors import SYSTEM
from tests.client import DESKS, code, deploy_path, post, push
from tests.factories import a_connected_desk
from tests.signals.bodies import deploy, floor, nox

pytestmark = pytest.mark.django_db


@pytest.fixture
def path(desk) -> str:
    return deploy_path(desk.public_id)


def test_the_desk_must_be_ready(engine, card):
    other = a_connected_desk()
    path = deploy_path(other.public_id)
    assert code(post(path, deploy(), engine)) == "desk_not_ready"
    desks.enrol(desk=other, card_id=card.pk, actor=SYSTEM)
    assert code(post(path, deploy(), engine)) == "ok"
    desks.withdraw(desk=other, actor=SYSTEM)
    assert code(post(path, deploy(), engine)) == "desk_not_ready"


@pytest.mark.parametrize("user_id", ["usr_1", "bot_" + "0" * 22, "usr_" + "0" * 23, "x", "%00"])
def test_a_path_with_an_invalid_user_id_is_not_found(user_id):
    response = post(f"{DESKS}/{user_id}/signal", deploy())
    assert (response.status_code, code(response)) == (404, "not_found")
    assert response["Content-Type"] == "application/problem+json"


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

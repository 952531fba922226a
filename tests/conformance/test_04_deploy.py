"""Section 4, POST /api/v1/desks/{userId}/signal: one desk, by a named platform."""

import pytest

from tests.conformance.client import assert_refused, became, deploy_path, faults


def test_the_customers_body_fills_that_desk_and_no_other(service):
    """The customer's section 4, shape 2."""
    body = service.one_desk()
    assert set(body) == {"pair", "direction", "nonce", "elected", "source", "mode"}
    answer = service.deploy(service.desk, body)
    assert became(answer) == ("filled", 1, 1)
    signal = answer.json()["signal"]
    assert (signal["userId"], signal["fanout"]) == (service.desk, False)
    filled = service.desks(signal=signal["id"])
    assert [desk["userId"] for desk in filled] == [service.desk]


@pytest.mark.parametrize("changes", [{"mode": None}, {"fanout": False}, {"fanout": None}])
def test_what_is_optional_may_be_null_or_false(service, changes):
    """Section 4: mode paper or absent; for every optional field null is the same as absent."""
    assert service.deploy(service.desk, service.one_desk(**changes)).status_code == 200


def test_the_paths_own_desk_may_be_named_in_the_body(service):
    """Section 4: unlike the path's is invalid."""
    same = service.one_desk(userId=service.desk)
    assert service.deploy(service.desk, same).status_code == 200
    other = service.deploy(service.desk, service.one_desk(userId=service.other_desk))
    assert_refused(other, 422, "invalid")
    assert faults(other) == {"userId"}


@pytest.mark.once
def test_the_path_is_for_one_desk(service):
    """Section 4: fanout true is invalid."""
    answer = service.deploy(service.desk, service.one_desk(fanout=True))
    assert_refused(answer, 422, "invalid")
    assert faults(answer) == {"fanout"}


@pytest.mark.once
@pytest.mark.parametrize(
    ("field", "value"),
    [("source", "nox"), ("mode", "draft"), ("direction", "up"), ("pair", "a/b"), ("nonce", "a b")],
)
def test_a_field_of_another_form_is_invalid_and_named(service, field, value):
    """Sections 1, 4 and 7: pair, direction, nonce, source floor, mode paper."""
    answer = service.deploy(service.desk, service.one_desk(**{field: value}))
    assert_refused(answer, 422, "invalid")
    assert faults(answer) == {field}


def test_a_nonce_of_128_visible_characters_is_taken(service):
    body = service.one_desk()
    body["nonce"] = (body["nonce"] + "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~").ljust(128, "~")
    assert service.deploy(service.desk, body).json()["signal"]["nonce"] == body["nonce"]


def test_the_desk_must_be_ready(service, idle):
    """Section 4: also with another pair, as the order of section 5 says."""
    for pair in (service.elected["pair"], "NOT/IT"):
        answer = service.deploy(idle, service.one_desk(pair=pair))
        body = assert_refused(answer, 422, "desk_not_ready")
        assert body["reason"] == "not_connected"


def test_the_pair_is_compared_exactly(service):
    """Section 1, pair: never mapped."""
    base, _, quote = service.elected["pair"].partition("/")
    for pair in (f"{base}/{quote}T", f"{base}-/{quote}", f"{quote}/{base}"):
        answer = service.deploy(service.desk, service.one_desk(pair=pair))
        assert_refused(answer, 422, "pair_mismatch")


def test_it_takes_a_platform_token_with_write(service):
    """Section 4, the heading."""
    path, body = deploy_path(service.desk), service.one_desk()
    assert_refused(service.send("POST", path, body, service.reader), 403, "scope_missing")
    assert_refused(service.send("POST", path, body, service.desk_token), 403, "not_allowed")
    assert_refused(service.send("POST", path, body), 401, "credentials_missing")
    assert service.send("POST", path, body, service.platform).status_code == 200


@pytest.mark.once
def test_its_media_type_is_json_with_any_parameters(service):
    """Section 5: 415, not on the hook."""

    def deployed(kind):
        return service.deploy(service.desk, service.one_desk(), headers={"Content-Type": kind})

    for kind in ("text/plain", None):
        assert_refused(deployed(kind), 415, "unsupported_media_type")
    assert deployed("application/json; charset=utf-8").status_code == 200

"""Section 4, GET /api/v1/signals and /api/v1/signals/{signalId}: what became of a signal."""

import pytest

from tests.conformance.client import NO_BOT, NO_SIGNAL, SIGNALS, assert_refused, faults


def test_a_lost_answer_is_found_by_nonce_and_by_id(service, user):
    """Section 4: the same JSON as first of a 409."""
    own = user.mint_desk_token()
    sent = [
        (service.fanout(), {"source": "floor"}, {"token": service.platform}),
        (service.of_nox(), {"source": "nox"}, {"token": service.platform}),
        (
            service.tradingview(),
            {"botId": service.bot["botId"]},
            {"secret": service.bot["secret"]},
        ),
    ]
    for body, signer, credential in sent:
        service.push(body, **credential)
        first = service.push(body, **credential).json()["first"]
        query = {"nonce": body.get("nonce") or body["action_id"], **signer}
        by_id = f"{SIGNALS}/{first['signal']['id']}"
        assert service.get(SIGNALS, service.reader, **query).json() == first
        assert service.get(by_id, service.reader).json() == first
        if "botId" in signer:
            assert service.get(SIGNALS, own, **query).json() == first
            assert service.get(by_id, own).json() == first
        else:
            assert_refused(service.get(by_id, own), 404, "not_found")


def test_another_desks_token_finds_nothing(service):
    """Section 4: one and the same 404 for what is not visible and what is not there."""
    body = service.tradingview()
    signal = service.push(body, secret=service.bot["secret"]).json()["signal"]
    query = {"nonce": body["nonce"], "botId": service.bot["botId"]}
    hidden = service.get(SIGNALS, service.desk_token, **query)
    unknown = service.get(SIGNALS, service.desk_token, **{**query, "botId": NO_BOT})
    for answer in (hidden, unknown, service.get(f"{SIGNALS}/{signal['id']}", service.desk_token)):
        assert_refused(answer, 404, "not_found")
    assert hidden.json()["detail"] == unknown.json()["detail"]


def test_what_was_not_accepted_is_not_found(service):
    """Section 4: refused or never sent. Then the same nonce is good."""
    body = service.fanout(pair="NOT/IT")
    service.push(body, service.platform)
    query = {"nonce": body["nonce"], "source": "floor"}
    assert_refused(service.get(SIGNALS, service.platform, **query), 404, "not_found")
    assert_refused(service.get(f"{SIGNALS}/{NO_SIGNAL}", service.platform), 404, "not_found")
    lawful = service.fanout(nonce=body["nonce"])
    assert service.push(lawful, service.platform).status_code == 200
    assert service.get(SIGNALS, service.platform, **query).status_code == 200


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"nonce": "n"}, "botId"),
        ({"nonce": "n", "source": "floor", "botId": NO_BOT}, "botId"),
        ({"nonce": "n", "source": "tradingview"}, "source"),
    ],
)
def test_anything_else_is_invalid_and_names_the_field(service, query, field):
    answer = service.get(SIGNALS, service.platform, **query)
    assert_refused(answer, 422, "invalid")
    assert field in faults(answer)


def test_it_takes_read(service, admin):
    """Section 4: any Bearer with read."""
    with admin.platform_token("write") as token:
        assert_refused(service.get(SIGNALS, token["token"]), 403, "scope_missing")
    assert_refused(service.get(SIGNALS), 401, "credentials_missing")

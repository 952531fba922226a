"""Section 2: tokens and secrets, their form, their record, how long they hold."""

import re
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest

from tests.conformance.browser import SHOWN
from tests.conformance.client import EVENTS, ME, TOKENS, assert_refused, code, without_id
from tests.conformance.credentials import BASE62, checksum, credential

pytestmark = pytest.mark.once

ONE_TIME_KEY = re.compile(r'name="one_time_key" value="([^"]+)"')
RECORD = {
    "id",
    "scope",
    "name",
    "scopes",
    "hint",
    "createdAt",
    "lastUsedAt",
    "expiresAt",
    "revokedAt",
    "userId",
}


def moment(text):
    assert text[10] == "T", "RFC 3339"
    assert text[-5] == ".", "milliseconds"
    assert text.endswith("Z"), "UTC"
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def every_credential(seed):
    yield "svc_plat_", seed["platformToken"]
    yield "svc_plat_", seed["readToken"]
    yield "svc_sign_", seed["floorSecret"]
    yield "svc_sign_", seed["automation"]["secret"]
    for desk in seed["desks"]:
        yield "svc_desk_", desk["deskToken"]


def test_every_credential_has_its_prefix_43_random_characters_and_its_checksum(service):
    """Section 2, the table."""
    for prefix, value in every_credential(service.seed):
        assert value.startswith(prefix)
        assert len(value) == len(prefix) + 43 + 6
        assert set(value[9:]) <= set(BASE62)
        assert value[-6:] == checksum(value[:-6])


@pytest.mark.parametrize("prefix", ["svc_desk_", "svc_plat_"])
def test_a_token_that_is_unknown_or_mistyped_is_answered_alike(service, prefix):
    """Sections 2 and 5: unknown, a wrong checksum, a secret that is no token: one answer."""
    unknown = credential(prefix)
    mistyped = unknown[:-1] + ("1" if unknown[-1] == "0" else "0")
    wrong = (unknown, mistyped, prefix, "x", service.floor)
    answers = [service.get(EVENTS, token) for token in wrong]
    for answer in answers:
        assert_refused(answer, 401, "token_invalid")
        assert without_id(answer) == without_id(answers[0])


def test_minting_again_replaces_the_desks_token(service, user):
    """Section 2: at most one in force a desk; its scopes are read; nothing refuses the new one."""
    first, second = user.mint_desk_token(), user.mint_desk_token()
    assert_refused(service.get(ME, first), 401, "token_invalid")
    assert service.get(ME, second).status_code == 200
    listed = service.get(TOKENS, second).json()["tokens"]
    in_force = [token for token in listed if token["revokedAt"] is None]
    assert [token["scopes"] for token in in_force] == [["read"]]


def test_a_token_record_never_shows_the_value(service, user):
    """Section 2, the record: these fields and no others, a hint of prefix and last four."""
    minted = user.api("POST", TOKENS, {"scope": "desk", "name": "Mine"})
    record = minted.json()
    value = record.pop("token")
    assert set(record) == RECORD
    assert (record["scope"], record["name"], record["scopes"]) == ("desk", "Mine", ["read"])
    assert record["id"].startswith("tok_")
    assert record["hint"].startswith("svc_desk_")
    assert record["hint"].endswith(value[-4:])
    assert record["userId"] == service.own_desk
    assert (record["lastUsedAt"], record["expiresAt"], record["revokedAt"]) == (None, None, None)
    assert abs(moment(record["createdAt"]) - datetime.now(UTC)) < timedelta(minutes=5)
    listed = service.get(TOKENS, value)
    assert value not in listed.text
    assert all(set(token) == RECORD for token in listed.json()["tokens"])


def test_the_time_of_use_is_at_most_a_minute_late(service, admin):
    """Section 2, lastUsedAt."""
    with admin.platform_token("read") as token:
        assert service.get(EVENTS, token["token"], limit=1).status_code == 200
        record = service.get(TOKENS, token["token"]).json()["tokens"][0]
    late = moment(record["lastUsedAt"]) - moment(record["createdAt"])
    assert timedelta(0) <= late < timedelta(minutes=2)


def test_write_does_not_imply_read(service, admin):
    """Section 2, platform token."""
    with admin.platform_token("write") as token:
        assert_refused(service.get(EVENTS, token["token"]), 403, "scope_missing")
        assert_refused(service.get("/api/v1/desks", token["token"]), 403, "scope_missing")
        assert service.push(service.fanout(), token["token"]).status_code == 200


def test_a_platform_token_holds_until_it_expires(service, admin):
    """Section 2, optional expiry; an expired token gets the answer of an unknown one."""
    with ExitStack() as minted:
        token = None
        while token is None:
            end = datetime.now(UTC) + timedelta(seconds=5)
            expiry = end.isoformat(timespec="milliseconds")
            try:
                token = minted.enter_context(admin.platform_token("read", expiresAt=expiry))
            except AssertionError:
                assert datetime.now(UTC) >= end  # it came too late: once more
        assert token["expiresAt"] == expiry.replace("+00:00", "Z")
        deadline = time.monotonic() + 60
        while (answer := service.get(EVENTS, token["token"], limit=1)).status_code == 200:
            assert time.monotonic() < deadline
        assert datetime.now(UTC) >= moment(token["expiresAt"])
        assert_refused(answer, 401, "token_invalid")


@pytest.mark.parametrize(
    ("overlap", "outcome"), [(0, "signature_invalid"), (3600, "ok"), (604800, "ok")]
)
def test_a_replaced_secret_verifies_for_as_long_as_its_owner_chooses(
    service, bot, overlap, outcome
):
    """Section 2, overlap: ended at once by default, at most seven days."""
    bot.elect("AAA/BBB", "long")
    body = {"pair": "AAA/BBB", "direction": "long"}
    old, new = bot.generate(), bot.generate(overlap)
    assert code(service.push(bot.body(**body), secret=new)) == "ok"
    assert code(service.push(bot.body(**body), secret=old)) == outcome


def test_an_ended_secret_verifies_nothing(service, bot):
    """Section 2: the end holds from the next request on."""
    bot.elect("AAA/BBB", "long")
    secret = bot.generate()
    bot.end_secrets()
    body = bot.body(pair="AAA/BBB", direction="long")
    assert_refused(service.push(body, secret=secret), 401, "signature_invalid")


def test_a_form_that_shows_a_secret_once_makes_it_once(user, bot):
    """Section 5, made_already: the form carries a key; without the key each time makes one."""
    path = f"{bot.page}/secret"
    key = ONE_TIME_KEY.search(user.get(path).text)
    assert key
    form = {"one_time_key": key.group(1)}
    first, again = user.post(path, form), user.post(path, form)
    assert (first.status_code, again.status_code) == (200, 409)
    assert "made_already" in again.text
    shown = SHOWN.search(first.text)
    assert shown
    assert SHOWN.search(again.text) is None
    bot.elect("AAA/BBB", "long")
    body = bot.body(pair="AAA/BBB", direction="long")
    assert user.service.push(body, secret=shown.group(1)).status_code == 200
    assert bot.generate(0) != bot.generate(0)

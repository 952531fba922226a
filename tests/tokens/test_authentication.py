"""Authentication (contract, section 3) and the order of its checks (section 5)."""

from datetime import timedelta

import pytest
import time_machine
from django.test import RequestFactory
from django.utils import timezone
from rest_framework.request import Request

from desks import actions as desks
from events.actors import SYSTEM
from events.http.refusals import SignatureInvalid
from events.models import Event
from tests.client import (
    DESKS,
    EVENTS,
    HOOK,
    ME,
    TOKENS,
    bearer,
    code,
    deploy_path,
    get,
    post,
    push,
    signed,
    without_id,
    written,
)
from tests.factories import (
    a_bot,
    a_connected_desk,
    a_desk,
    a_desk_token,
    a_platform_token,
    a_shared_secret,
)
from tests.signals.bodies import deploy, fanout, nox, tradingview
from tokens import actions
from tokens.callers.authentication import SignerAuthentication
from tokens.choices import Source
from tokens.crypto import formats, signing
from tokens.models import SigningSecret, Token

pytestmark = pytest.mark.django_db


def record_of(value: str) -> Token:
    return next(t for t in Token.objects.all() if t.hint == formats.hint(value))


# --- Bearer -------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [ME, DESKS, EVENTS, TOKENS, f"{DESKS}/usr_{'0' * 22}"])
def test_a_request_without_credentials_is_credentials_missing(path):
    response = get(path)
    assert (response.status_code, code(response)) == (401, "credentials_missing")
    assert response["WWW-Authenticate"] == "Bearer"


def test_the_hook_and_the_deploy_without_credentials_are_credentials_missing(desk):
    for path in (HOOK, deploy_path(desk.public_id)):
        response = post(path, deploy())
        assert (response.status_code, code(response)) == (401, "credentials_missing")
        assert response["WWW-Authenticate"] == "Bearer"


def test_unknown_revoked_and_expired_tokens_get_the_same_response(desk):
    now = timezone.now()
    expired, _ = actions.mint_platform_token(
        name="Old", scopes=["read", "write"], expires_at=now + timedelta(hours=1), actor=SYSTEM
    )
    revoked = a_platform_token()
    actions.revoke(token=record_of(revoked), actor=SYSTEM)
    unknown, mistyped = formats.new("svc_plat_"), formats.new("svc_plat_")[:-1] + "é"
    with time_machine.travel(now + timedelta(hours=1), tick=False):
        for path in (EVENTS, TOKENS):
            answers = [without_id(get(path, t)) for t in (unknown, revoked, expired, mistyped)]
            assert answers[0][1]["code"] == "token_invalid"
            assert all(answer == answers[0] for answer in answers)
        pushes = [without_id(push(fanout(), t)) for t in (unknown, revoked, expired, mistyped)]
        assert all(answer == pushes[0] for answer in pushes)


def test_a_token_expires_exactly_at_its_expiry(desk):
    now = timezone.now()
    value, _ = actions.mint_platform_token(
        name="Short", scopes=["read"], expires_at=now + timedelta(hours=1), actor=SYSTEM
    )
    with time_machine.travel(now + timedelta(minutes=59), tick=False):
        assert get(EVENTS, value).status_code == 200
    with time_machine.travel(now + timedelta(minutes=60), tick=False):
        assert code(get(EVENTS, value)) == "token_invalid"


def test_a_replaced_desk_token_is_refused_from_the_next_request_on(desk):
    old = a_desk_token(desk)
    assert get(ME, old).status_code == 200
    new = a_desk_token(desk)
    assert code(get(ME, old)) == "token_invalid"
    assert get(ME, new).status_code == 200


@pytest.mark.parametrize(
    "scheme", ["Basic {}", "Token {}", "{}", "Bearer", "Bearer ", "", " ", "Bearer  {}"]
)
@pytest.mark.parametrize("path", [EVENTS, TOKENS])
def test_another_scheme_than_bearer_is_token_invalid(engine, scheme, path):
    response = get(path, Authorization=scheme.format(engine))
    assert (response.status_code, code(response)) == (401, "token_invalid")
    assert response["WWW-Authenticate"] == "Bearer"


def test_the_scheme_is_case_insensitive(engine):
    for scheme in ("bearer", "BEARER", "Bearer"):
        assert get(EVENTS, Authorization=f"{scheme} {engine}").status_code == 200


MALFORMED = [
    "",
    "\x00",
    "Bearer \x00",
    "Bearer \x7f\x1b[31m",
    "Bearer é",
    "Bearer \xff\xfe",
    "Bearer " + "٣" * 58,
    "Bearer " + "a" * 1_000_000,
    "Bearer svc_plat_",
    "Bearer svc_plat_" + "0" * 49 + "\n",
    "Bearer svc_plat_" + "0" * 49 + ", Bearer svc_plat_" + "0" * 49,
    "\t",
    "Bearer\tsvc_plat_" + "0" * 49,
    "=?utf-8?q?Bearer?=",
]


@pytest.mark.parametrize("header", MALFORMED)
def test_a_malformed_authorization_header_is_a_401_on_every_path(header, desk):
    answers = [
        get(ME, Authorization=header),
        get(DESKS, Authorization=header),
        get(EVENTS, Authorization=header),
        get(TOKENS, Authorization=header),
        post(TOKENS, {"scope": "desk"}, headers={"Authorization": header}),
        push(fanout(), headers={"Authorization": header}),
        post(deploy_path(desk.public_id), deploy(), headers={"Authorization": header}),
    ]
    assert {(answer.status_code, code(answer)) for answer in answers} == {(401, "token_invalid")}


def test_a_token_followed_by_a_newline_is_not_that_token(engine):
    assert code(get(EVENTS, Authorization=f"Bearer {engine}\n")) == "token_invalid"


def test_responses_and_logs_never_contain_the_credential(engine, caplog):
    mistyped = engine[:-1] + ("0" if engine[-1] != "0" else "1")
    for response in (
        get(EVENTS, mistyped),
        get(EVENTS, f"{engine}x"),
        get(EVENTS, Authorization=f"Basic {engine}"),
        push(fanout(), headers={**bearer(engine), "X-SVC-Signature": engine}),
        push(b"{", engine),
        get(DESKS, engine, **{"X-Request-Id": engine + "!"}),
    ):
        assert engine[10:40].encode() not in response.content
        assert engine[10:40] not in str(response.headers)
    assert engine[10:40] not in caplog.text


# --- The hook: which credential, for which source -----------------------------------------------


def test_a_platform_token_with_write_authorises_floor_and_nox(engine):
    assert code(push(fanout(), engine)) == "ok"
    assert code(push(nox(), engine)) == "ok"


def test_the_floor_secret_signs_floor(desk):
    assert code(push(fanout(), secret=a_shared_secret(Source.FLOOR))) == "ok"


def test_the_nox_secret_signs_nox(desk):
    a_shared_secret(Source.FLOOR)
    assert code(push(nox(), secret=a_shared_secret(Source.NOX))) == "ok"


def test_the_floor_secret_signs_nox_while_no_nox_secret_was_ever_generated(desk):
    assert code(push(nox(), secret=a_shared_secret(Source.FLOOR))) == "ok"


def test_once_a_nox_secret_exists_the_floor_secret_is_refused_for_nox(desk):
    floor = a_shared_secret(Source.FLOOR)
    a_shared_secret(Source.NOX)
    response = push(nox(), secret=floor)
    assert (response.status_code, code(response)) == (401, "floor_secret_refused")
    assert response["WWW-Authenticate"] == "Bearer"
    assert code(push(fanout(), secret=floor)) == "ok"


def test_after_the_nox_secret_has_ended_the_floor_secret_is_still_refused_for_nox(desk):
    floor = a_shared_secret(Source.FLOOR)
    nox_secret, record = actions.generate_secret(source=Source.NOX, actor=SYSTEM)
    actions.end_secret(secret=record, actor=SYSTEM)
    assert code(push(nox(), secret=floor)) == "floor_secret_refused"
    assert code(push(nox(), secret=nox_secret)) == "signature_invalid"


def test_a_write_token_does_not_make_up_for_a_floor_signature_on_nox(engine):
    floor = a_shared_secret(Source.FLOOR)
    a_shared_secret(Source.NOX)
    assert code(push(nox(), engine, secret=floor)) == "floor_secret_refused"


def test_an_ended_floor_secret_for_nox_is_refused_like_an_unknown_one(desk):
    floor, record = actions.generate_secret(source=Source.FLOOR, actor=SYSTEM)
    a_shared_secret(Source.NOX)
    actions.end_secret(secret=record, actor=SYSTEM)
    assert code(push(nox(), secret=floor)) == "signature_invalid"


def test_the_nox_secret_does_not_sign_floor_nor_a_bots_secret_either(bot):
    a_shared_secret(Source.FLOOR)
    for secret in (a_shared_secret(Source.NOX), bot.secret):
        assert code(push(fanout(), secret=secret)) == "signature_invalid"


def test_neither_a_shared_secret_nor_another_bots_signs_a_bot(desk, bot):
    other = a_bot(desk)
    for secret in (a_shared_secret(Source.FLOOR), a_shared_secret(Source.NOX), other.secret):
        assert code(push(tradingview(bot), secret=secret)) == "signature_invalid"


def test_a_bots_own_secret_signs_tradingview(bot):
    assert code(push(tradingview(bot), secret=bot.secret)) == "ok"


def test_tradingview_with_a_bearer_alone_is_signature_missing(bot, engine):
    response = push(tradingview(bot), engine)
    assert (response.status_code, code(response)) == (401, "signature_missing")
    assert response["WWW-Authenticate"] == "Bearer"


def test_tradingview_with_a_bearer_alone_is_signature_missing_for_every_scope(bot, desk):
    for token in (a_platform_token("read"), a_desk_token(desk)):
        assert code(push(tradingview(bot), token)) == "signature_missing"


@pytest.mark.parametrize("left_out", ["X-SVC-Timestamp", "X-SVC-Signature"])
def test_one_signing_header_alone_is_signature_missing(bot, engine, left_out):
    body = written(tradingview(bot))
    headers = signed(bot.secret, body=body)
    del headers[left_out]
    for presented in (headers, {**headers, **bearer(engine)}):
        response = push(body, headers=presented)
        assert (response.status_code, code(response)) == (401, "signature_missing")


# --- Both presented -----------------------------------------------------------------------------


def test_both_presented_and_valid_is_accepted(bot, engine):
    assert code(push(tradingview(bot), engine, secret=bot.secret)) == "ok"
    assert code(push(fanout(), engine, secret=a_shared_secret())) == "ok"


def test_a_valid_bearer_with_a_wrong_signature_is_refused(engine):
    a_shared_secret()
    assert code(push(fanout(), engine, secret="wrong")) == "signature_invalid"


def test_a_valid_signature_with_an_inactive_bearer_is_refused(bot, engine):
    floor = a_shared_secret()
    actions.revoke(token=record_of(engine), actor=SYSTEM)
    assert code(push(fanout(), engine, secret=floor)) == "token_invalid"
    assert code(push(fanout(), secret=floor, headers={"Authorization": "Basic x"})) == (
        "token_invalid"
    )
    assert code(push(tradingview(bot), engine, secret=bot.secret)) == "token_invalid"


def test_only_the_authorising_credential_needs_scope_and_kind(desk, bot):
    floor = a_shared_secret()
    for token in (a_platform_token("read"), a_desk_token(desk)):
        assert code(push(fanout(), token, secret=floor)) == "ok"
        assert code(push(tradingview(bot), token, secret=bot.secret)) == "ok"


def test_the_event_names_the_credential_that_authorised(engine, desk):
    floor = a_shared_secret()
    push(fanout(), engine, secret=floor)
    last = Event.objects.last()
    assert last.actor == SigningSecret.objects.get().actor


# --- Kind and scope -----------------------------------------------------------------------------


def test_a_desk_token_on_the_hook_is_not_allowed(desk):
    response = push(fanout(), a_desk_token(desk))
    assert (response.status_code, code(response)) == (403, "not_allowed")


def test_a_desk_token_cannot_pull_desks_or_deploy(desk):
    token = a_desk_token(desk)
    assert code(get(DESKS, token)) == "not_allowed"
    assert code(get(f"{DESKS}/{desk.public_id}", token)) == "not_allowed"
    assert code(post(deploy_path(desk.public_id), deploy(), token)) == "not_allowed"


def test_a_platform_token_has_no_desk_of_its_own(engine):
    response = get(ME, engine)
    assert (response.status_code, code(response)) == (403, "not_allowed")


def test_a_read_token_cannot_push_signals(desk):
    reader = a_platform_token("read")
    for response in (
        push(fanout(), reader),
        push(nox(), reader),
        post(deploy_path(desk.public_id), deploy(), reader),
    ):
        assert (response.status_code, code(response)) == (403, "scope_missing")


def test_write_does_not_imply_read(desk):
    writer = a_platform_token("write")
    assert code(push(fanout(), writer)) == "ok"
    for path in (DESKS, f"{DESKS}/{desk.public_id}", EVENTS):
        response = get(path, writer)
        assert (response.status_code, code(response)) == (403, "scope_missing")


def test_signing_headers_are_ignored_outside_the_hook(desk, engine):
    floor = a_shared_secret()
    body = written(deploy())
    path = deploy_path(desk.public_id)
    assert code(post(path, body, headers=signed(floor, body=body))) == "credentials_missing"
    junk = {"X-SVC-Timestamp": "junk", "X-SVC-Signature": "junk"}
    assert code(post(path, deploy(), engine, headers=junk)) == "ok"
    assert get(EVENTS, engine, **junk).status_code == 200


def test_the_catalog_and_the_contract_need_no_credentials():
    for path in ("/api/v1", HOOK):
        assert get(path, "nonsense").status_code == 200
        assert get(path, **{"X-SVC-Timestamp": "junk"}).status_code == 200


# --- An unknown bot -----------------------------------------------------------------------------


def test_an_unknown_bot_gets_the_same_response_as_a_wrong_signature(bot, desk):
    wrong = without_id(push(tradingview(bot), secret="wrong"))
    assert wrong[0] == 401
    assert wrong[1]["code"] == "signature_invalid"
    removed = a_bot(desk)
    actions.remove_automation(automation=removed.automation, actor=SYSTEM)
    bare = desks.add_automation(desk=desk, name="No secret", actor=SYSTEM)
    for body, secret in [
        (tradingview(bot, botId="bot_" + "0" * 22), bot.secret),
        (tradingview(removed), removed.secret),
        (tradingview(bot, botId=bare.pk), bot.secret),
        (tradingview(bot, botId=bot.id.lower()), bot.secret),
        (tradingview(bot, botId=None), bot.secret),
        (tradingview(bot, botId=[bot.id]), bot.secret),
        (tradingview(bot, botId=5), bot.secret),
        (tradingview(bot, botId="x" * 10_000), bot.secret),
        (tradingview(bot, source="elsewhere"), bot.secret),
        (tradingview(bot, source=None), bot.secret),
        (tradingview(bot, source=["tradingview"]), bot.secret),
        (tradingview(bot, source={"tradingview": 1}), bot.secret),
        (tradingview(bot, source="TradingView"), bot.secret),
    ]:
        assert without_id(push(body, secret=secret)) == wrong


def test_an_unknown_bot_costs_the_same_queries_and_verifications_as_a_wrong_signature(
    bot, django_assert_num_queries, monkeypatch
):
    """Counts queries and verifications, because measured times are not reliable."""
    verified: list[int] = []
    verifies = signing.verifies

    def counting(*arguments):
        verified[-1] += 1
        return verifies(*arguments)

    monkeypatch.setattr(signing, "verifies", counting)
    request = RequestFactory()
    for bot_id in (bot.id, "bot_" + "0" * 22):
        verified.append(0)
        body = written(tradingview(bot, botId=bot_id))
        pushed = request.generic("POST", HOOK, body, headers=signed("wrong", body=body))
        with django_assert_num_queries(1), pytest.raises(SignatureInvalid):
            SignerAuthentication().authenticate(Request(pushed))
    assert verified == [2, 2]


# --- Overlap ------------------------------------------------------------------------------------


def test_during_an_overlap_both_secrets_sign_and_after_it_the_new_one(bot):
    now = timezone.now()
    with time_machine.travel(now, tick=False):
        new, _ = actions.generate_secret(
            source=Source.TRADINGVIEW,
            automation=bot.automation,
            overlap=timedelta(hours=1),
            actor=SYSTEM,
        )
        assert code(push(tradingview(bot), secret=bot.secret)) == "ok"
        assert code(push(tradingview(bot), secret=new)) == "ok"
    with time_machine.travel(now + timedelta(minutes=59), tick=False):
        assert code(push(tradingview(bot), secret=bot.secret)) == "ok"
    with time_machine.travel(now + timedelta(hours=1), tick=False):
        assert code(push(tradingview(bot), secret=bot.secret)) == "signature_invalid"
        assert code(push(tradingview(bot), secret=new)) == "ok"


def test_without_an_overlap_the_old_secret_ends_at_once(bot):
    new, _ = actions.generate_secret(
        source=Source.TRADINGVIEW, automation=bot.automation, actor=SYSTEM
    )
    assert code(push(tradingview(bot), secret=bot.secret)) == "signature_invalid"
    assert code(push(tradingview(bot), secret=new)) == "ok"


def test_replacing_during_an_overlap_ends_the_oldest(bot):
    def replace() -> str:
        return actions.generate_secret(
            source=Source.TRADINGVIEW,
            automation=bot.automation,
            overlap=timedelta(days=1),
            actor=SYSTEM,
        )[0]

    second, third = replace(), replace()
    assert code(push(tradingview(bot), secret=bot.secret)) == "signature_invalid"
    assert code(push(tradingview(bot), secret=second)) == "ok"
    assert code(push(tradingview(bot), secret=third)) == "ok"


def test_a_sender_can_sign_with_both_secrets_during_a_rotation(bot):
    body = written(tradingview(bot))
    assert code(push(body, headers=signed(bot.secret, "the next", body=body))) == "ok"


# --- Order --------------------------------------------------------------------------------------


def test_the_form_of_the_headers_is_checked_before_the_timestamp(bot, engine):
    body = written(tradingview(bot))
    old = signed(bot.secret, body=body, at=1_000_000_000)
    response = push(body, headers={**old, "Authorization": "Bearer x"})
    assert code(response) == "token_invalid"
    assert code(push(body, headers={**old, "X-SVC-Signature": "x"})) == "signature_invalid"


def test_the_timestamp_is_checked_before_the_bearer_is_looked_up(bot):
    body = written(tradingview(bot))
    old = signed(bot.secret, body=body, at=1_000_000_000)
    unknown = bearer(formats.new(formats.PLATFORM_TOKEN))
    assert code(push(body, headers={**old, **unknown})) == "timestamp_invalid"


def test_the_bearer_is_looked_up_before_the_body_is_read(desk):
    unknown = formats.new(formats.PLATFORM_TOKEN)
    assert code(push(b"{", unknown)) == "token_invalid"


def test_the_body_is_read_before_the_signature_is_checked(bot, engine):
    for body in (b"{", b"[]", b"", b'{"a": NaN}'):
        assert code(push(body, headers=signed("wrong", body=body))) == "malformed"
        assert code(push(body, engine, secret="wrong")) == "malformed"


def test_on_the_hook_the_body_is_read_before_kind_and_scope(desk):
    assert code(push(b"{", a_platform_token("read"))) == "malformed"
    assert code(push(b"{", a_desk_token(desk))) == "malformed"


def test_off_the_hook_kind_and_scope_come_before_the_body(desk):
    path = deploy_path(desk.public_id)
    assert code(post(path, b"{", a_platform_token("read"))) == "scope_missing"
    assert code(post(path, b"{", a_desk_token(desk), content_type="text/plain")) == "not_allowed"


def test_the_signature_is_checked_before_the_law(bot):
    body = tradingview(bot, mode="live", elected=False, api_key="x")
    assert code(push(body, secret="wrong")) == "signature_invalid"


def test_a_deactivated_users_token_and_bots_are_refused(desk, bot):
    token = a_desk_token(desk)
    actions.deactivate(user=desk.user, actor=SYSTEM)
    assert code(get(ME, token)) == "token_invalid"
    assert code(push(tradingview(bot), secret=bot.secret)) == "signature_invalid"


def test_a_desk_that_is_not_connected_has_a_token_too():
    assert get(ME, a_desk_token(a_desk())).status_code == 200
    assert get(ME, a_desk_token(a_connected_desk())).status_code == 200

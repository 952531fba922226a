"""Authentication (contract, section 3). Its order: ``tests/config/test_order_of_checks.py``."""

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
from signals.intake.authentication import SignerAuthentication
from tests.client import (
    DESKS,
    EVENTS,
    HOOK,
    ME,
    TOKENS,
    bearer,
    code,
    get,
    push,
    signed,
    without_id,
    written,
)
from tests.factories import a_bot, a_desk_token, a_platform_token, a_shared_secret
from tests.signals.bodies import fanout, nox, tradingview
from tokens import actions
from tokens.choices import Source
from tokens.crypto import formats, signing
from tokens.models import SigningSecret, Token

pytestmark = pytest.mark.django_db


# --- Bearer -------------------------------------------------------------------------------------


def test_unknown_revoked_and_expired_tokens_get_the_same_response(desk):
    now = timezone.now()
    expired, _ = actions.mint_platform_token(
        name="Old", scopes=["read", "write"], expires_at=now + timedelta(hours=1), actor=SYSTEM
    )
    revoked = a_platform_token()
    actions.revoke(token=Token.objects.latest("pk"), actor=SYSTEM)
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


MALFORMED = [
    "",
    "\x00",
    "Basic dTpw",
    "Bearer",
    "Bearer x y",
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


@pytest.mark.once
@pytest.mark.parametrize("header", MALFORMED)
def test_a_malformed_authorization_header_is_a_401(header):
    for answer in (
        get(ME, Authorization=header),
        push(fanout(), headers={"Authorization": header}),
    ):
        assert (answer.status_code, code(answer)) == (401, "token_invalid")


@pytest.mark.once
def test_a_token_in_another_form_than_bearer_and_the_token_is_not_accepted(engine):
    for form in (
        "Bearer {}\n",
        "Bearer \t{}",
        "Bearer {} x",
        'Bearer "{}"',
        "Basic {}",
        "Token {}",
        "{}",
    ):
        assert code(get(EVENTS, Authorization=form.format(engine))) == "token_invalid", form


INVALID_TOKEN = 'Bearer realm="signals", error="invalid_token"'


@pytest.mark.once
@pytest.mark.parametrize(
    ("sent", "challenge"),
    [
        ({}, 'Bearer realm="signals"'),
        ({"Authorization": "Basic dTpw"}, 'Bearer realm="signals"'),
        ({"Authorization": "Bearer x"}, INVALID_TOKEN),
        (bearer(formats.new(formats.PLATFORM_TOKEN)), INVALID_TOKEN),
    ],
)
def test_a_401_says_whether_a_token_was_sent_and_is_invalid(sent, challenge):
    for answer in (get(EVENTS, **sent), push(fanout(), headers=sent)):
        assert (answer.status_code, answer["WWW-Authenticate"]) == (401, challenge)


@pytest.mark.once
def test_the_challenge_of_a_wrong_signature_has_no_error(engine):
    for token in (None, engine):
        answer = push(fanout(), token, secret=formats.new(formats.SIGNING_SECRET))
        assert code(answer) == "signature_invalid"
        assert answer["WWW-Authenticate"] == 'Bearer realm="signals"'


def test_a_403_says_which_scope_is_missing(desk):
    reader, writer = a_platform_token("read"), a_platform_token("write")
    for answer, scope in ((push(fanout(), reader), "write"), (get(DESKS, writer), "read")):
        assert code(answer) == "scope_missing"
        challenge = f'Bearer realm="signals", error="insufficient_scope", scope="{scope}"'
        assert answer["WWW-Authenticate"] == challenge
    assert "WWW-Authenticate" not in push(fanout(), a_desk_token(desk))


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


def test_neither_a_shared_secret_nor_another_bots_signs_a_bot(desk, bot):
    other = a_bot(desk)
    for secret in (a_shared_secret(Source.FLOOR), a_shared_secret(Source.NOX), other.secret):
        assert code(push(tradingview(bot), secret=secret)) == "signature_invalid"


def test_the_event_names_the_credential_that_authorised(engine, desk):
    floor = a_shared_secret()
    push(fanout(), engine, secret=floor)
    last = Event.objects.last()
    assert last.actor == SigningSecret.objects.get().actor


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

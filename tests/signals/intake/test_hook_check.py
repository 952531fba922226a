"""POST /api/hooks/check: the hook's answer, without any write (contract, section 4)."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events.models import Event
from tests import described
from tests.client import CHECK, code, post, push
from tests.factories import a_platform_token, a_shared_secret
from tests.signals.bodies import fanout, nox, tradingview
from tokens.choices import Source
from tokens.crypto import formats
from tokens.models import Token

pytestmark = pytest.mark.django_db

READS = ("SELECT", "SAVEPOINT", "RELEASE SAVEPOINT")


def written_by(ask):
    """The statements of a request that are no reads."""
    with CaptureQueriesContext(
        connection,
    ) as captured:
        ask()
    return [each["sql"] for each in captured if not each["sql"].lstrip().startswith(READS)]


def test_no_statement_of_a_check_writes(bot, engine):
    unknown = formats.new(formats.SIGNING_SECRET)
    for ask in (
        lambda: post(CHECK, tradingview(bot), secret=bot.secret),
        lambda: post(CHECK, tradingview(bot, pair="SOL/USDT"), secret=bot.secret),
        lambda: post(CHECK, tradingview(bot), secret=unknown),
        lambda: post(CHECK, fanout(), engine),
    ):
        assert written_by(ask) == []
    assert written_by(lambda: push(fanout(), engine)) != []


def test_a_check_is_no_use_of_a_token(engine):
    assert post(CHECK, fanout(), engine).status_code == 200
    assert Token.objects.get().last_used_at is None
    push(fanout(), engine)
    assert Token.objects.get().last_used_at is not None


def test_a_refused_check_is_not_recorded(bot):
    before = Event.objects.count()
    assert code(post(CHECK, tradingview(bot, pair="SOL/USDT"), secret=bot.secret)) == (
        "pair_mismatch"
    )
    unknown = formats.new(formats.SIGNING_SECRET)
    assert code(post(CHECK, tradingview(bot), secret=unknown)) == "signature_invalid"
    assert Event.objects.count() == before


def test_checks_and_signals_share_the_limits(bot, settings):
    settings.LIMITS = {**settings.LIMITS, "automation": "2/minute"}
    checked = post(CHECK, tradingview(bot), secret=bot.secret)
    assert checked["RateLimit"].startswith('"automation";r=1;')
    assert push(tradingview(bot), secret=bot.secret).status_code == 200
    assert code(post(CHECK, tradingview(bot), secret=bot.secret)) == "rate_limited"


def test_a_guessed_secret_counts_as_a_failed_credential(bot, settings):
    settings.LIMITS = {**settings.LIMITS, "failures": "1/minute"}
    for expected in ("signature_invalid", "rate_limited"):
        unknown = formats.new(formats.SIGNING_SECRET)
        assert code(post(CHECK, tradingview(bot), secret=unknown)) == expected


def test_the_floor_secret_cannot_check_for_nox_once_nox_has_a_secret(card):
    floor = a_shared_secret(Source.FLOOR)
    assert post(CHECK, nox(), secret=floor).status_code == 200
    a_shared_secret(Source.NOX)
    assert code(post(CHECK, nox(), secret=floor)) == "floor_secret_refused"


def test_the_answers_are_as_described(bot, engine):
    body = tradingview(bot)
    answers = [
        post(CHECK, body, secret=bot.secret),
        post(CHECK, fanout(), engine),
        post(CHECK, body | {"pair": "SOL/USDT"}, secret=bot.secret),
        post(CHECK, body, a_platform_token("read")),
        post(CHECK, b"{", engine),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 422, 401, 400]
    for answer in answers:
        assert described.faults("checkSignal", answer) == []

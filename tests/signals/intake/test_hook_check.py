"""POST /api/hooks/check: the hook's answer, without any write (contract, section 4)."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.client import CHECK, code, post, push
from tests.signals.bodies import fanout, tradingview
from tokens.crypto import formats

pytestmark = pytest.mark.django_db

READS = ("SELECT", "SAVEPOINT", "RELEASE SAVEPOINT")


def written_by(ask):
    """The statements of a request that are no reads."""
    with CaptureQueriesContext(connection) as captured:
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

"""The handwritten SQL agrees with the querysets about which credentials are active."""

from datetime import timedelta

import pytest
from django.utils import timezone

from events.actors import SYSTEM
from events.statements import adapt_datetime, fetch_one
from tests import factories
from tokens import actions
from tokens.callers.statements import SECRET_IS_LIVE, TOKEN_IS_ACTIVE
from tokens.choices import Source
from tokens.models import SigningSecret, Token

pytestmark = pytest.mark.django_db

NOW = timezone.now() + timedelta(days=2)  # so that every moment is after the creation
MOMENTS = [NOW - timedelta(days=1), NOW, NOW + timedelta(milliseconds=1), None]


def selected(column: str, public_id: str) -> bool:
    parameters = {"credential": public_id, "at": adapt_datetime(NOW)}
    sent = " FROM (SELECT %(credential)s AS token, %(credential)s AS secret) AS sent"
    return bool(fetch_one("SELECT " + column + sent, parameters)[0])


def test_a_token_is_active_for_both():
    for revoked_at in MOMENTS:
        for expires_at in MOMENTS:
            factories.a_platform_token()
            newest = Token.objects.latest("id").pk
            Token.objects.filter(pk=newest).update(revoked_at=revoked_at, expires_at=expires_at)
    active = set(Token.objects.active(NOW).values_list("public_id", flat=True))
    assert len(active) == 2
    for public_id in Token.objects.values_list("public_id", flat=True):
        assert selected(TOKEN_IS_ACTIVE, public_id) == (public_id in active)


def test_a_secret_is_live_for_both():
    bot = factories.a_bot(factories.a_ready_desk(factories.a_card()))
    for _ in range(len(MOMENTS) - 1):
        actions.generate_secret(source=Source.TRADINGVIEW, automation=bot.automation, actor=SYSTEM)
    secrets = SigningSecret.objects.order_by("id")
    for secret, ends_at in zip(secrets, MOMENTS, strict=True):
        SigningSecret.objects.filter(pk=secret.pk).update(ends_at=ends_at)
    live = set(SigningSecret.objects.live(NOW).values_list("public_id", flat=True))
    assert len(live) == 2
    for public_id in SigningSecret.objects.values_list("public_id", flat=True):
        assert selected(SECRET_IS_LIVE, public_id) == (public_id in live)

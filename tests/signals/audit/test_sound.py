"""The audit of intact databases, and its checks of nonces and of the configured keys."""

import pytest
from allauth.mfa.models import Authenticator
from django.db import connection

from signals.audit.findings import Findings
from signals.audit.state import check_schema
from signals.intake.models import Signal
from tests.signals.audit.stage import audited, broken
from tokens.choices import Source
from tokens.models import SigningSecret, Token

pytestmark = pytest.mark.django_db


def test_a_database_with_every_kind_of_event_keeps_every_promise(falsified):
    assert broken() == {}


def test_every_promise_is_checked_on_some_rows(falsified):
    findings = audited()
    check_schema(findings)
    assert [finding.says for finding in findings] == [finding.says for finding in Findings()]
    assert [finding.says for finding in findings if not finding.count] == []


def test_only_the_first_breaches_are_named(falsified):
    Token.objects.update(name="Forged")
    found = audited().tokens
    assert (found.broken, len(found.first)) == (Token.objects.count(), 5)


def test_a_digest_of_an_unknown_key_is_found(falsified):
    Token.objects.filter(scope="platform", revoked_at=None).update(key_id="00000000")
    assert list(broken()) == ["digests"]


def test_a_revoked_token_of_a_lost_key_breaks_nothing(falsified):
    Token.objects.exclude(revoked_at=None).update(key_id="00000000")
    assert broken() == {}


def test_a_secret_moved_to_another_row_is_found(falsified):
    one, other = SigningSecret.objects.filter(source=Source.FLOOR)
    SigningSecret.objects.filter(pk=one.pk).update(ciphertext=bytes(other.ciphertext))
    assert broken() == {"sealed": [one.public_id]}


@pytest.mark.parametrize(
    ("kind", "name"),
    [(Authenticator.Type.TOTP, "secret"), (Authenticator.Type.RECOVERY_CODES, "seed")],
)
def test_a_second_factor_that_cannot_be_decrypted_is_found(falsified, kind, name):
    factor = Authenticator.objects.get(type=kind)
    factor.data[name] = factor.data[name][:-2] + "zz"
    factor.save()
    assert broken() == {"factors": [f"factor {factor.pk}"]}


def test_a_nonce_spent_twice_is_found(falsified):
    if connection.vendor == "sqlite":
        pytest.skip("SQLite keeps its constraint")
    first, second = Signal.objects.filter(signer="nox").order_by("position")[:2]
    Signal.objects.filter(pk=second.pk).update(nonce=first.nonce)
    assert "nonces" in broken()

"""Checks that the configured keys still read every stored token digest and secret."""

from collections.abc import Callable
from functools import partial

from allauth.mfa.models import Authenticator
from django.conf import settings

from signals.reports.audit.findings import Finding, Findings
from tokens.crypto import keys
from tokens.crypto.rotation import ENCRYPTED_FIELDS
from tokens.models import SigningSecret, Token


def check_keys(findings: Findings) -> None:
    """Checks the digest key of each unrevoked token, and decrypts each secret and second factor."""
    _digests(findings.digests)
    for secret in SigningSecret.objects.order_by("pk").iterator():
        _check(findings.sealed, secret.public_id, secret.decrypt)
    for factor in Authenticator.objects.order_by("pk").iterator():
        encrypted = [factor.data[name] for name in ENCRYPTED_FIELDS if name in factor.data]
        _check(findings.factors, f"factor {factor.pk}", partial(_decrypt_each, encrypted))


def _digests(finding: Finding) -> None:
    known = [keys.key_id(key) for key in settings.TOKEN_KEYS]
    tokens = Token.objects.filter(revoked_at=None)
    finding.count = tokens.count()
    unknown = tokens.exclude(key_id__in=known)
    for public_id in unknown.values_list("public_id", flat=True).iterator():
        finding.breach(public_id)


def _check(finding: Finding, name: str, decrypt: Callable[[], object]) -> None:
    finding.count += 1
    try:
        decrypt()
    except (keys.KeyLostError, ValueError):
        finding.breach(name)


def _decrypt_each(encrypted: list[str]) -> None:
    for text in encrypted:
        keys.decrypt_factor(text)

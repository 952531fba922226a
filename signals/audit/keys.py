"""Checks that the configured keys still read every stored token digest and secret."""

from collections.abc import Callable, Iterator
from functools import partial

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.db.models import Q

from events.models import Head
from signals.audit.findings import Finding, Findings
from signals.notices.chats.models import Chat
from signals.webhooks.models import DeliveryAttempt, Subscription, SubscriptionSecret
from tokens.crypto import keys
from tokens.models import Sealed, SigningSecret, Token
from tokens.models.secret import NO_TEXT
from tokens.sealed_texts import ENCRYPTED_FIELDS


def check_keys(findings: Findings) -> None:
    """Checks the digest key of each unrevoked token, and decrypts each secret and second factor.

    Only a signing secret that has ended may have no text.
    """
    _digests(findings.digests)
    erased = Q(key_id=NO_TEXT, ends_at__lte=Head.objects.get().at)
    for secret in SigningSecret.objects.exclude(erased).order_by("pk").iterator():
        _check(findings.sealed, secret.public_id, secret.decrypt)
    for row in _of_webhooks():
        _check(findings.webhooks, str(row), row.decrypt)
    for chat in Chat.objects.order_by("pk").iterator():
        _check(findings.chats, chat.public_id, chat.decrypt)
    for factor in Authenticator.objects.order_by("pk").iterator():
        encrypted = [factor.data[name] for name in ENCRYPTED_FIELDS if name in factor.data]
        _check(findings.factors, f"factor {factor.pk}", partial(_decrypt_each, encrypted))


def _of_webhooks() -> Iterator[Sealed]:
    """Every row that holds a text of a webhook subscription."""
    yield from Subscription.objects.order_by("pk").iterator()
    for model in (SubscriptionSecret, DeliveryAttempt):
        rows = model._default_manager.exclude(key_id=NO_TEXT).select_related("subscription")
        yield from rows.order_by("pk").iterator()


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

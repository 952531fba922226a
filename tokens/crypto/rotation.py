"""Re-encrypts data under the first key, and finds data that still needs an older key.

Each row is one short transaction, so the command can be killed at any point and run again. All
data stays readable meanwhile, because every configured key decrypts.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.db import transaction
from django.db.models import F

from tokens.crypto import keys
from tokens.models import SigningSecret, Token
from tokens.models.secret import SigningSecretQuerySet
from tokens.models.token import TokenQuerySet

# The encrypted members of an authenticator's data: a TOTP secret, the seed of recovery codes.
ENCRYPTED_FIELDS = ("secret", "seed")


def secrets_on_old_keys() -> SigningSecretQuerySet:
    """Signing secrets that are not encrypted under the first key."""
    return SigningSecret.objects.exclude(key_id=keys.key_id(settings.SECRET_KEYS[0]))


def reencrypt_secrets() -> Iterator[str]:
    """Re-encrypts signing secrets under the first key; yields the id of each.

    Raises ``keys.KeyLostError`` if no configured key decrypts a secret.
    """
    for secret in secrets_on_old_keys().order_by("id").iterator():
        old_key_id = secret.key_id
        secret.encrypt(secret.decrypt())
        changes = {"ciphertext": secret.ciphertext, "key_id": secret.key_id}
        SigningSecret.objects.filter(pk=secret.pk, key_id=old_key_id).update(**changes)
        yield secret.public_id


def reencrypt_second_factors() -> Iterator[bool]:
    """Re-encrypts second factors; yields True for each one that was re-encrypted, else False."""
    for factor in Authenticator.objects.order_by("pk").iterator():
        outdated = bool(_on_old_keys(factor.data))
        if outdated:
            _reencrypt(factor.pk)
        yield outdated


@transaction.atomic
def _reencrypt(pk: int) -> None:
    """Locks and rereads the row: a recovery code may have been used, or the factor removed."""
    for factor in Authenticator.objects.select_for_update().filter(pk=pk):
        for name, text in _on_old_keys(factor.data).items():
            factor.data[name] = keys.encrypt_factor(keys.decrypt_factor(text))
        factor.save(update_fields=["data"])


def _on_old_keys(data: dict[str, Any]) -> dict[str, str]:
    """The members of a second factor's data that are not encrypted under the first key."""
    first = keys.key_id(settings.SECRET_KEYS[0])
    return {
        name: data[name]
        for name in ENCRYPTED_FIELDS
        if name in data and keys.factor_key_id(data[name]) != first
    }


def tokens_on_old_keys(now: datetime) -> TokenQuerySet:
    """Active tokens whose digest was not made with the first key, least recently used first.

    A digest cannot be recomputed without the token's value, so it is replaced at the next use.
    """
    first = keys.key_id(settings.TOKEN_KEYS[0])
    tokens = Token.objects.active(now).exclude(key_id=first)
    return tokens.order_by(F("last_used_at").asc(nulls_first=True), "id")

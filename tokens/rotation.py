"""Moving everything that is encrypted to the newest key, and finding what still needs an old one.

Each row is one small write that is whole by itself, so the work can be killed at any point and run
again: what is done stays done, and stays readable all the while, since older keys still open.
"""

from collections.abc import Iterator
from typing import Any

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.db import transaction

from tokens import keys
from tokens.models import SigningSecret, Token
from tokens.models.secret import SigningSecretQuerySet
from tokens.models.token import TokenQuerySet

# Where the second factors keep what they encrypt: a TOTP seed, the seed of recovery codes.
ENCRYPTED_FIELDS = ("secret", "seed")


def secrets_on_old_keys() -> SigningSecretQuerySet:
    """The signing secrets that the newest key does not open."""
    return SigningSecret.objects.exclude(key_id=keys.key_id(settings.SECRET_KEYS[0]))


def reencrypt_secrets() -> Iterator[str]:
    """Seals every signing secret under the newest key; yields the id of each that it moved.

    Raises ``keys.KeyLostError`` at a secret that no key of the environment opens.
    """
    for secret in secrets_on_old_keys().order_by("id").iterator():
        before = secret.key_id
        secret.seal(secret.text())
        moved = {"ciphertext": secret.ciphertext, "key_id": secret.key_id}
        SigningSecret.objects.filter(pk=secret.pk, key_id=before).update(**moved)
        yield secret.public_id


def reencrypt_second_factors() -> Iterator[bool]:
    """The same for the second factors of accounts; yields of every one whether it moved."""
    for factor in Authenticator.objects.order_by("pk").iterator():
        needs_it = bool(_on_old_keys(factor.data))
        if needs_it:
            _move(factor.pk)
        yield needs_it


@transaction.atomic
def _move(row: int) -> None:
    """Reads it anew and locked: meanwhile a recovery code may be used, or the factor removed."""
    for factor in Authenticator.objects.select_for_update().filter(pk=row):
        for name, text in _on_old_keys(factor.data).items():
            factor.data[name] = keys.encrypt_factor(keys.decrypt_factor(text))
        factor.save(update_fields=["data"])


def _on_old_keys(data: dict[str, Any]) -> dict[str, str]:
    """The encrypted fields of a second factor that the newest key does not open."""
    newest = keys.key_id(settings.SECRET_KEYS[0])
    return {
        name: data[name]
        for name in ENCRYPTED_FIELDS
        if name in data and keys.key_of(data[name]) != newest
    }


def tokens_on_old_keys() -> TokenQuerySet:
    """Tokens not yet revoked whose digest stands on an older key: used once, each moves itself."""
    newest = keys.key_id(settings.TOKEN_KEYS[0])
    return Token.objects.filter(revoked_at=None).exclude(key_id=newest)

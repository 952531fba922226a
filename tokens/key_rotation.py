"""Moves encrypted texts and second factors to the first key, and finds tokens on another one.

Re-encrypting takes one short transaction for each row, so the command can be killed at any point
and run again. All data stays readable meanwhile, because every configured key decrypts.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet

from desks.models import Chat
from tokens.crypto import keys
from tokens.models import Sealed, Token
from tokens.models.secret import NO_TEXT, decrypt, encrypt
from tokens.models.token import TokenQuerySet

# The encrypted members of an authenticator's data: a TOTP secret, the seed of recovery codes.
ENCRYPTED_FIELDS = ("secret", "seed")


def on_old_keys(model: type[Sealed | Chat]) -> QuerySet[Any]:
    """Rows of a table whose text is not encrypted under the first key."""
    first = keys.key_id(settings.SECRET_KEYS[0])
    return model._default_manager.exclude(key_id__in=[first, NO_TEXT])


def reencrypt(model: type[Sealed | Chat]) -> Iterator[Sealed | Chat]:
    """Re-encrypts the text of each row of a table under the first key; yields each row.

    Raises ``keys.KeyLostError`` if no configured key decrypts it.
    """
    for row in on_old_keys(model).order_by("pk").iterator():
        unchanged = model._default_manager.filter(pk=row.pk, ciphertext=bytes(row.ciphertext))
        encrypt(row, decrypt(row))
        unchanged.update(ciphertext=row.ciphertext, key_id=row.key_id)
        yield row


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
    tokens = Token.objects.active(now).exclude(key_id=first).select_related("desk")
    return tokens.order_by(F("last_used_at").asc(nulls_first=True), "id")

"""What happens to encrypted texts later: those of old keys are re-encrypted, ended secrets' erased.

Re-encrypting takes one short transaction for each row, so the command can be killed at any point
and run again. All data stays readable meanwhile, because every configured key decrypts.

Of a signing secret that has ended, the text is erased (contract, section 2) and the row stays: the
log tells of it, and whether the Floor secret may sign for Nox depends on whether a Nox secret was
ever generated. A secret has ended if its ``ends_at`` is not after the time of the log's last turn.
No later turn has an earlier time, so none can accept or change such a secret. That is why erasing
needs no turn: it never locks a row that a turn waits for.
"""

import logging
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.db import Error, transaction
from django.db.models import F, QuerySet

from desks.models import Chat, Desk
from events.models import Head
from tokens.crypto import keys
from tokens.models import Sealed, SigningSecret, Token
from tokens.models.secret import NO_TEXT, SigningSecretQuerySet, decrypt, encrypt
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


MAX_ERASED = 500

logger = logging.getLogger(__name__)


def erase_ended() -> bool:
    """Erases a batch of texts. Returns whether there may be more."""
    ended = _ended_secrets()
    batch = list(ended.order_by("ends_at").values_list("pk", flat=True)[:MAX_ERASED])
    ended.filter(pk__in=batch).erase()
    return len(batch) == MAX_ERASED


def erase_secrets_of(desk: Desk) -> None:
    """Erases the texts of a closed desk, in one statement. What fails is left to the runner."""
    try:
        _ended_secrets().filter(automation__desk=desk).erase()
    except Error:
        logger.warning("The secrets of %s are not erased yet: the runner does it.", desk.public_id)


def _ended_secrets() -> SigningSecretQuerySet:
    """The secrets that have ended by the log's time, and whose text is still there."""
    return SigningSecret.objects.with_text().filter(ends_at__lte=Head.objects.get().at)

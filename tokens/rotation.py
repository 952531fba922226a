"""Moving everything that is encrypted to the newest key, and finding what still needs an old one.

Each row is one small write that is whole by itself, so the work can be killed at any point and run
again: what is done stays done, and stays readable all the while, since older keys still open.
"""

from collections.abc import Iterator

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.db import transaction

from tokens import keys
from tokens.models import SigningSecret, Token
from tokens.models.token import TokenQuerySet

# Where the second factors keep what they encrypt: a TOTP seed, the seed of recovery codes.
ENCRYPTED_FIELDS = ("secret", "seed")


def reencrypt_secrets() -> Iterator[str]:
    """Seals every signing secret under the newest key; yields the id of each that it moved.

    Raises ``keys.KeyLostError`` at a secret that no key of the environment opens.
    """
    newest = keys.key_id(settings.SECRET_KEYS[0])
    for secret in SigningSecret.objects.exclude(key_id=newest).order_by("id").iterator():
        before = secret.key_id
        secret.seal(secret.text())
        moved = {"ciphertext": secret.ciphertext, "key_id": secret.key_id}
        SigningSecret.objects.filter(pk=secret.pk, key_id=before).update(**moved)
        yield secret.public_id


def reencrypt_second_factors() -> Iterator[int]:
    """The same for the second factors of accounts; yields the row of each that it moved."""
    newest = keys.key_id(settings.SECRET_KEYS[0])
    for row in Authenticator.objects.order_by("pk").values_list("pk", flat=True).iterator():
        with transaction.atomic():
            factor = Authenticator.objects.select_for_update().get(pk=row)
            old = {
                name: factor.data[name]
                for name in ENCRYPTED_FIELDS
                if name in factor.data and keys.key_of(factor.data[name]) != newest
            }
            if old:
                factor.data |= {
                    name: keys.encrypt_factor(keys.decrypt_factor(old[name])) for name in old
                }
                factor.save(update_fields=["data"])
        if old:
            yield row


def tokens_on_old_keys() -> TokenQuerySet:
    """Tokens not yet revoked whose digest stands on an older key: used once, each moves itself."""
    newest = keys.key_id(settings.TOKEN_KEYS[0])
    return Token.objects.filter(revoked_at=None).exclude(key_id=newest)

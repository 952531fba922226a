"""The keys of the environment at work: digests of tokens, and signing secrets at rest.

Keys come newest first. New work uses the newest; older ones stay readable, and the id of the key
stands beside whatever was made with it.
"""

import hashlib
import hmac
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

KEY_ID_CHARACTERS = 8
NONCE_BYTES = 12
# What second factors are bound to: the library that keeps them does not say in which row.
SECOND_FACTOR = "second factor"


class KeyLostError(Exception):
    """A ciphertext that no key of the environment reads, or that stands in another's row."""


def key_id(key: bytes) -> str:
    """The name of a key: 8 hex digits of its hash, which tell nothing of it."""
    return hashlib.sha256(b"key id" + key).hexdigest()[:KEY_ID_CHARACTERS]


def digest(token: str, key: bytes) -> str:
    """HMAC-SHA256 in hex: who can write the database but lacks the key cannot plant a token."""
    return hmac.digest(key, token.encode(), "sha256").hex()


def newest_id() -> str:
    """The id of the key that new digests are made with."""
    return key_id(settings.TOKEN_KEYS[0])


def new_digest(token: str) -> tuple[str, str]:
    """The digest under the newest key, and that key's id."""
    return digest(token, settings.TOKEN_KEYS[0]), newest_id()


def every_digest(token: str) -> list[str]:
    """The digests under all keys, newest first: one of them is what the database holds."""
    return [digest(token, key) for key in settings.TOKEN_KEYS]


def encrypt(secret: str, row: str) -> tuple[bytes, str]:
    """The ciphertext (nonce first) bound to a row, and the id of the key."""
    newest, nonce = settings.SECRET_KEYS[0], os.urandom(NONCE_BYTES)
    return nonce + AESGCM(newest).encrypt(nonce, secret.encode(), row.encode()), key_id(newest)


def decrypt(ciphertext: bytes, row: str, made_with: str) -> str:
    """The secret's text; raises ``KeyLostError``."""
    nonce, sealed = ciphertext[:NONCE_BYTES], ciphertext[NONCE_BYTES:]
    for key in settings.SECRET_KEYS:
        if key_id(key) == made_with:
            try:
                return AESGCM(key).decrypt(nonce, sealed, row.encode()).decode()
            except InvalidTag:
                break
    raise KeyLostError(f"A secret does not open with key {made_with}.")


def encrypt_factor(text: str) -> str:
    """What a second factor keeps, encrypted, as one text: the key's id and the ciphertext."""
    sealed, made_with = encrypt(text, SECOND_FACTOR)
    return f"{made_with}:{sealed.hex()}"


def decrypt_factor(text: str) -> str:
    """The other way round; raises ``KeyLostError``."""
    made_with, _, sealed = text.partition(":")
    return decrypt(bytes.fromhex(sealed), SECOND_FACTOR, made_with)


def key_of(text: str) -> str:
    """The id of the key that a second factor's text was encrypted with."""
    return text.partition(":")[0]

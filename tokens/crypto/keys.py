"""Token digests, and encryption of signing secrets and second factors at rest.

The first key of a setting digests and encrypts; every key of it verifies and decrypts. The id of
the key is stored with each digest and ciphertext.
"""

import hashlib
import hmac
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

KEY_ID_CHARACTERS = 8
NONCE_BYTES = 12
# The associated data of second factors: allauth does not tell its adapter which row it encrypts.
SECOND_FACTOR = "second factor"


class KeyLostError(Exception):
    """No configured key decrypts the ciphertext, or it belongs to another row."""


def key_id(key: bytes) -> str:
    """The id of a key: 8 hex digits of its hash, which do not reveal the key."""
    return hashlib.sha256(b"key id" + key).hexdigest()[:KEY_ID_CHARACTERS]


def digest(token: str, key: bytes) -> str:
    """HMAC-SHA256 in hex: without the key, write access to the database cannot plant a token."""
    return hmac.digest(key, token.encode(), "sha256").hex()


def new_digest(token: str) -> tuple[str, str]:
    """The digest under the first key, and the id of that key."""
    first = settings.TOKEN_KEYS[0]
    return digest(token, first), key_id(first)


def all_digests(token: str) -> list[str]:
    """The digests under all keys. The database stores one of them."""
    return [digest(token, key) for key in settings.TOKEN_KEYS]


def encrypt(secret: str, associated_data: str) -> tuple[bytes, str]:
    """Encrypts with AES-GCM under the first key.

    Returns the nonce followed by the ciphertext, and the id of the key. Only the same
    ``associated_data`` decrypts it.
    """
    key, nonce = settings.SECRET_KEYS[0], os.urandom(NONCE_BYTES)
    sealed = AESGCM(key).encrypt(nonce, secret.encode(), associated_data.encode())
    return nonce + sealed, key_id(key)


def decrypt(ciphertext: bytes, associated_data: str, encrypted_with: str) -> str:
    """The secret's text. ``encrypted_with`` is the key's id. Raises ``KeyLostError``."""
    nonce, sealed = ciphertext[:NONCE_BYTES], ciphertext[NONCE_BYTES:]
    for key in settings.SECRET_KEYS:
        if key_id(key) == encrypted_with:
            try:
                return AESGCM(key).decrypt(nonce, sealed, associated_data.encode()).decode()
            except InvalidTag:
                break
    raise KeyLostError(f"Cannot decrypt a secret with key {encrypted_with}.")


def encrypt_factor(text: str) -> str:
    """Encrypts a second factor's data. Returns the key's id, a colon and the ciphertext in hex."""
    ciphertext, encrypted_with = encrypt(text, SECOND_FACTOR)
    return f"{encrypted_with}:{ciphertext.hex()}"


def decrypt_factor(encrypted_text: str) -> str:
    """Decrypts the result of ``encrypt_factor``. Raises ``KeyLostError``."""
    encrypted_with, _, ciphertext = encrypted_text.partition(":")
    return decrypt(bytes.fromhex(ciphertext), SECOND_FACTOR, encrypted_with)


def factor_key_id(text: str) -> str:
    """The id of the key that encrypted a second factor's data."""
    return text.partition(":")[0]

"""What counts as a secret of an exchange (contract, section 6). Pure."""

import re
from typing import Any

from tokens import formats

CONTAINED = (
    "apikey",
    "apisecret",
    "privatekey",
    "secretkey",
    "passphrase",
    "password",
    "seedphrase",
    "mnemonic",
    "clientsecret",
)
AT_THE_END = ("secret", "accesskey", "accesstoken", "apitoken")
ALONE = ("key", "sign", "otp")

_SEPARATORS = str.maketrans("", "", "_-. ")
_NAME = re.compile(rf"{'|'.join(CONTAINED)}|(?:{'|'.join(AT_THE_END)})\Z|\A(?:{'|'.join(ALONE)})\Z")
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----")


def holds_secret(value: Any) -> bool:
    """Says whether a JSON value holds, at any depth, a secret's name or a secret."""
    if isinstance(value, str):
        return is_secret(value)
    if isinstance(value, dict):
        return any(
            names_secret(name) or is_secret(name) or holds_secret(member)
            for name, member in value.items()
        )
    return isinstance(value, list) and any(holds_secret(member) for member in value)


def names_secret(name: str) -> bool:
    """Says whether a key is one under which people send secrets."""
    return bool(_NAME.search(name.lower().translate(_SEPARATORS)))


def is_secret(text: str) -> bool:
    """Says whether a PEM private key, or a credential of this service, stands in the text."""
    return bool(_PRIVATE_KEY.search(text)) or formats.is_in(text)

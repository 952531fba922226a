"""Detects exchange secrets in JSON values and in text (contract, section 6). Pure."""

import re
from typing import Any

from tokens.crypto import formats

NAME_PARTS = (
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
NAME_ENDINGS = ("secret", "accesskey", "accesstoken", "apitoken")
WHOLE_NAMES = ("key", "sign", "otp")

_SEPARATORS = str.maketrans("", "", "_-. ")
_NAME = re.compile(
    rf"{'|'.join(NAME_PARTS)}|(?:{'|'.join(NAME_ENDINGS)})\Z|\A(?:{'|'.join(WHOLE_NAMES)})\Z"
)
_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})")
_NAMES = re.compile(r"[:=]")
_BREAK = re.compile(r"[\"'`{}\[\],;\n]")
_CLOSING = " \t\r\n\"'`\\"
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----")


def contains_secret(value: Any) -> bool:
    """Whether a JSON value contains, at any depth, a secret or a key that names one."""
    if isinstance(value, str):
        return is_secret(value)
    if isinstance(value, dict):
        return any(
            is_secret_name(name) or is_secret(name) or contains_secret(member)
            for name, member in value.items()
        )
    return isinstance(value, list) and any(contains_secret(member) for member in value)


def text_contains_secret(text: str) -> bool:
    """Whether text that is not JSON contains a secret, or a name of one before a ``:`` or ``=``."""
    plain = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    names = (_BREAK.split(before.rstrip(_CLOSING))[-1] for before in _NAMES.split(plain)[:-1])
    return is_secret(plain) or any(is_secret_name(name) for name in names)


def is_secret_name(name: str) -> bool:
    """Whether a key is one that usually holds a secret."""
    return bool(_NAME.search(name.lower().translate(_SEPARATORS)))


def is_secret(text: str) -> bool:
    """Whether the text contains a PEM private key or a credential of this service."""
    return bool(_PRIVATE_KEY.search(text)) or formats.contains_credential(text)

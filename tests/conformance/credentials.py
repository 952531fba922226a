"""The format of the service's credentials (section 2)."""

import re
import secrets
from base64 import b64decode
from zlib import crc32

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
WEBHOOK = re.compile(r"whsec_([0-9A-Za-z+/]{40})")
FORM = re.compile(r"(svc_(?:desk|plat|sign)_[0-9A-Za-z]{43})([0-9A-Za-z]{6})")


def checksum(text: str) -> str:
    """Six base62 characters, big-endian and zero-padded, of the CRC32 (section 2)."""
    rest, digits = crc32(text.encode()), ""
    for _ in range(6):
        rest, digit = divmod(rest, 62)
        digits = BASE62[digit] + digits
    return digits


def credential(prefix: str) -> str:
    """A credential that was never issued, with a valid checksum."""
    body = prefix + "".join(secrets.choice(BASE62) for _ in range(43))
    return body + checksum(body)


def credentials_in(text: str) -> set[str]:
    """All credentials in a text that have a valid checksum."""
    candidates = (match.groups() for match in FORM.finditer(text))
    found = {body + end for body, end in candidates if checksum(body) == end}
    return found | webhook_secrets_in(text)


def webhook_secrets_in(text: str) -> set[str]:
    """All secrets of webhook subscriptions in a text (section 2)."""
    found = set()
    for match in WEBHOOK.finditer(text):
        raw = b64decode(match.group(1))
        if crc32(b"whsec_" + raw[:26]) == int.from_bytes(raw[26:], "big"):
            found.add(match.group())
    return found

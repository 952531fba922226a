"""The format of the service's credentials (section 2)."""

import re
import secrets
from zlib import crc32

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
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
    return {body + end for body, end in candidates if checksum(body) == end}

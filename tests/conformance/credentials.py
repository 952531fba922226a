"""What a credential of the service looks like (section 2)."""

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
    """A credential that nobody was ever given, its checksum right."""
    body = prefix + "".join(secrets.choice(BASE62) for _ in range(43))
    return body + checksum(body)


def credentials_in(text: str) -> set[str]:
    """Every credential that a text holds, its checksum right."""
    found = (match.groups() for match in FORM.finditer(text))
    return {body + end for body, end in found if checksum(body) == end}

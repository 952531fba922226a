"""How a credential is written: a prefix, 43 random base62 characters, and a checksum of 6.

Pure. The checksum is the CRC32 of all before it, big-endian in base62 and zero-padded (contract,
section 2): a mistyped token is told apart from an unknown one without asking the database, and one
that stands in a text is found for sure.
"""

import re
import zlib

from desks.ids import BASE62, random_base62

PREFIX = "svc_"  # of each of them
DESK_TOKEN = "svc_desk_"  # noqa: S105 - a prefix
PLATFORM_TOKEN = "svc_plat_"  # noqa: S105 - a prefix
SIGNING_SECRET = "svc_sign_"  # noqa: S105 - a prefix

RANDOM_CHARACTERS = 43
CHECKSUM_CHARACTERS = 6
HINT_CHARACTERS = 4

_FORM = re.compile(
    f"(?:{DESK_TOKEN}|{PLATFORM_TOKEN}|{SIGNING_SECRET})"
    f"[0-9A-Za-z]{{{RANDOM_CHARACTERS + CHECKSUM_CHARACTERS}}}"
)
_ANYWHERE = re.compile(f"(?=({_FORM.pattern}))")  # looks ahead, so that none hides another


def new(prefix: str) -> str:
    """A new credential with this prefix."""
    body = prefix + random_base62(RANDOM_CHARACTERS)
    return body + checksum(body)


def checksum(text: str) -> str:
    """Six base62 characters."""
    rest, digits = zlib.crc32(text.encode()), ""
    for _ in range(CHECKSUM_CHARACTERS):
        rest, digit = divmod(rest, len(BASE62))
        digits = BASE62[digit] + digits
    return digits


def is_whole(text: str, *prefixes: str) -> bool:
    """Says whether the text is a credential with one of the prefixes and the right checksum."""
    return text.startswith(prefixes) and bool(_FORM.fullmatch(text)) and _sums_up(text)


def is_in(text: str) -> bool:
    """Says whether a whole credential stands anywhere in the text."""
    if PREFIX not in text:  # as in nearly every text: each field of each signal is looked at
        return False
    return any(_sums_up(found.group(1)) for found in _ANYWHERE.finditer(text))


def hint(text: str) -> str:
    """What may be shown of a credential: its prefix and the last four characters."""
    return f"{text[: len(DESK_TOKEN)]}…{text[-HINT_CHARACTERS:]}"


def _sums_up(text: str) -> bool:
    return checksum(text[:-CHECKSUM_CHARACTERS]) == text[-CHECKSUM_CHARACTERS:]

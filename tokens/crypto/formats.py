"""The format of credentials: a prefix, 43 random base62 characters and a checksum of 6. Pure.

The checksum is the CRC32 of the characters before it, in base62, big-endian and zero-padded
(contract, section 2). It distinguishes a mistyped token from an unknown one without a query, and
makes a credential inside a longer text recognisable.
"""

import re
import zlib

from desks.ids import BASE62, random_base62

PREFIX = "svc_"  # common to all credentials
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
_ANYWHERE = re.compile(f"(?=({_FORM.pattern}))")  # a lookahead, so that matches may overlap


def new(prefix: str) -> str:
    """A new credential with this prefix."""
    body = prefix + random_base62(RANDOM_CHARACTERS)
    return body + checksum(body)


def checksum(text: str) -> str:
    """The checksum of the text: six base62 characters."""
    remainder, digits = zlib.crc32(text.encode()), ""
    for _ in range(CHECKSUM_CHARACTERS):
        remainder, digit = divmod(remainder, len(BASE62))
        digits = BASE62[digit] + digits
    return digits


def is_credential(text: str, *prefixes: str) -> bool:
    """Whether the text is a credential with one of the prefixes and a correct checksum."""
    return text.startswith(prefixes) and bool(_FORM.fullmatch(text)) and _checksum_matches(text)


def contains_credential(text: str) -> bool:
    """Whether the text contains a complete credential."""
    if PREFIX not in text:  # fast path: this runs for each field of each signal
        return False
    return any(_checksum_matches(match.group(1)) for match in _ANYWHERE.finditer(text))


def hint(text: str) -> str:
    """The part of a credential that may be displayed: its prefix and its last four characters."""
    return f"{text[: len(DESK_TOKEN)]}…{text[-HINT_CHARACTERS:]}"


def _checksum_matches(text: str) -> bool:
    return checksum(text[:-CHECKSUM_CHARACTERS]) == text[-CHECKSUM_CHARACTERS:]

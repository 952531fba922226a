"""The format of credentials: a prefix, 43 random base62 characters and a checksum of 6. Pure.

The checksum is the CRC32 of the characters before it, in base62, big-endian and zero-padded
(contract, section 2). It distinguishes a mistyped token from an unknown one without a query, and
makes a credential inside a longer text recognisable.

The secret of a webhook subscription has the form that Standard Webhooks gives it: a prefix and
base64. Its last four bytes are the CRC32 of the prefix and the random bytes before them.
"""

import base64
import re
import secrets
import zlib

from desks.ids import base62, random_base62

PREFIX = "svc_"  # common to all credentials
DESK_TOKEN = "svc_desk_"  # noqa: S105 - a prefix
PLATFORM_TOKEN = "svc_plat_"  # noqa: S105 - a prefix
SIGNING_SECRET = "svc_sign_"  # noqa: S105 - a prefix
WEBHOOK_SECRET = "whsec_"  # noqa: S105 - a prefix

RANDOM_CHARACTERS = 43
CHECKSUM_CHARACTERS = 6
HINT_CHARACTERS = 4
WEBHOOK_RANDOM_BYTES, WEBHOOK_CHECKSUM_BYTES = 26, 4
WEBHOOK_CHARACTERS = 40  # of base64, without padding

_FORM = re.compile(
    f"(?:{DESK_TOKEN}|{PLATFORM_TOKEN}|{SIGNING_SECRET})"
    f"[0-9A-Za-z]{{{RANDOM_CHARACTERS + CHECKSUM_CHARACTERS}}}"
)
_ANYWHERE = re.compile(f"(?=({_FORM.pattern}))")  # a lookahead, so that matches may overlap
_WEBHOOK_SECRET = re.compile(f"(?={WEBHOOK_SECRET}([0-9A-Za-z+/]{{{WEBHOOK_CHARACTERS}}}))")


def new(prefix: str) -> str:
    """A new credential with this prefix."""
    body = prefix + random_base62(RANDOM_CHARACTERS)
    return body + checksum(body)


def new_webhook_secret() -> str:
    """A new secret of a webhook subscription."""
    random = secrets.token_bytes(WEBHOOK_RANDOM_BYTES)
    return WEBHOOK_SECRET + base64.b64encode(random + _webhook_checksum(random)).decode()


def checksum(text: str) -> str:
    """The checksum of the text: six base62 characters."""
    return base62(zlib.crc32(text.encode()), CHECKSUM_CHARACTERS)


def is_credential(text: str, *prefixes: str) -> bool:
    """Whether the text is a credential with one of the prefixes and a correct checksum."""
    return text.startswith(prefixes) and bool(_FORM.fullmatch(text)) and _checksum_matches(text)


def contains_credential(text: str) -> bool:
    """Whether the text contains a complete credential."""
    # Fast paths: this runs for each field of each signal.
    return (PREFIX in text and _contains_token(text)) or (
        WEBHOOK_SECRET in text and _contains_webhook_secret(text)
    )


def hint(text: str) -> str:
    """The part of a credential that may be displayed: its prefix and its last four characters."""
    prefix = WEBHOOK_SECRET if text.startswith(WEBHOOK_SECRET) else text[: len(DESK_TOKEN)]
    return f"{prefix}…{text[-HINT_CHARACTERS:]}"


def _checksum_matches(text: str) -> bool:
    return checksum(text[:-CHECKSUM_CHARACTERS]) == text[-CHECKSUM_CHARACTERS:]


def _contains_token(text: str) -> bool:
    return any(_checksum_matches(match.group(1)) for match in _ANYWHERE.finditer(text))


def _contains_webhook_secret(text: str) -> bool:
    """Whether the text contains a complete secret of a webhook subscription."""
    for match in _WEBHOOK_SECRET.finditer(text):
        content = base64.b64decode(match.group(1))
        random, end = content[:WEBHOOK_RANDOM_BYTES], content[WEBHOOK_RANDOM_BYTES:]
        if _webhook_checksum(random) == end:
            return True
    return False


def _webhook_checksum(random: bytes) -> bytes:
    checksum = zlib.crc32(WEBHOOK_SECRET.encode() + random)
    return checksum.to_bytes(WEBHOOK_CHECKSUM_BYTES, "big")

"""Signing and verifying, pure (contract, section 3).

X-SVC-Timestamp: 1763630000
X-SVC-Signature: v1=<hex of HMAC-SHA256(secret, timestamp + "." + body)>
"""

import hmac
import re
from collections.abc import Iterable

TIMESTAMP_HEADER = "X-SVC-Timestamp"
SIGNATURE_HEADER = "X-SVC-Signature"

VERSION = "v1"
MOST_SIGNATURES = 5

_TIMESTAMP = re.compile(r"[0-9]{10}", re.ASCII)
_SIGNATURE = re.compile(rf"{VERSION}=[0-9a-f]{{64}}", re.ASCII)


def sign(secret: str, timestamp: int, body: bytes) -> str:
    """The signature of these bytes at this Unix time, as the header carries it."""
    message = b"%d." % timestamp + body
    return f"{VERSION}={hmac.digest(secret.encode(), message, 'sha256').hex()}"


def verifies(secrets: Iterable[str], timestamp: int, signatures: list[str], body: bytes) -> bool:
    """Says whether one of the secrets made one of the signatures; compares all of them."""
    found = False
    for secret in secrets:
        expected = sign(secret, timestamp, body)
        for signature in signatures:
            found |= hmac.compare_digest(expected, signature)
    return found


def read_timestamp(header: str) -> int | None:
    """The Unix time, or null where it is not exactly ten digits."""
    return int(header) if _TIMESTAMP.fullmatch(header) else None


def read_signatures(header: str) -> list[str]:
    """The signatures, at most five; none where any part of the header is malformed."""
    parts = header.split(",")
    whole = len(parts) <= MOST_SIGNATURES and all(_SIGNATURE.fullmatch(part) for part in parts)
    return parts if whole else []

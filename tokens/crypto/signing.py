"""Signs and verifies request bodies. Pure functions (contract, section 3).

X-SVC-Timestamp: 1763630000
X-SVC-Signature: v1=<hex of HMAC-SHA256(secret, timestamp + "." + body)>

A sender may give several signatures, each with its scheme: v0=<other>,v1=<hex>. Only v1 is
verified.
"""

import hmac
import re
from collections.abc import Iterable

TIMESTAMP_HEADER = "X-SVC-Timestamp"
SIGNATURE_HEADER = "X-SVC-Signature"

VERSION = "v1"
MAX_SIGNATURES = 5

_TIMESTAMP = re.compile(r"[0-9]{10}", re.ASCII)
_SIGNATURE = re.compile(rf"{VERSION}=[0-9a-f]{{64}}", re.ASCII)
# A signature of another scheme: its version, and a value in any common text encoding.
_OTHER_SCHEME = re.compile(rf"v[0-9]{{1,3}}(?<!{VERSION})=[0-9A-Za-z+/_.=-]{{1,256}}", re.ASCII)


def sign(secret: str, timestamp: int, body: bytes) -> str:
    """The signature of a body at a Unix time, in the format of the header."""
    message = b"%d." % timestamp + body
    return f"{VERSION}={hmac.digest(secret.encode(), message, 'sha256').hex()}"


def verifies(secrets: Iterable[str], timestamp: int, signatures: list[str], body: bytes) -> bool:
    """Whether one of the secrets made one of the signatures. Always compares every pair."""
    matches = False
    for secret in secrets:
        expected = sign(secret, timestamp, body)
        for signature in signatures:
            matches |= hmac.compare_digest(expected, signature)
    return matches


def read_timestamp(header: str) -> int | None:
    """The Unix time, or None if the header is not exactly ten digits."""
    return int(header) if _TIMESTAMP.fullmatch(header) else None


def read_signatures(header: str) -> list[str]:
    """The v1 signatures in a list of at most five; an empty list if any part is malformed.

    Signatures of other schemes are ignored, so a sender can already use a later scheme as well.
    """
    parts = header.split(",")
    signatures = [part for part in parts if _SIGNATURE.fullmatch(part)]
    others = [part for part in parts if _OTHER_SCHEME.fullmatch(part)]
    is_well_formed = len(signatures) + len(others) == len(parts) <= MAX_SIGNATURES
    return signatures if is_well_formed else []

"""What became of one message that was sent: the answer of the endpoint, or what went wrong."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum

LONGEST_NUMBER = 10  # digits of a Retry-After


class Fault(StrEnum):
    """Why a message failed, if no status says it. ``sentence`` tells the owner of the endpoint."""

    FORBIDDEN = "forbidden"
    DNS = "dns"
    CONNECT = "connect"
    TLS = "tls"
    TIMEOUT = "timeout"
    BROKEN = "broken"
    UNPROVEN = "unproven"

    @property
    def sentence(self) -> str:
        return SENTENCES[self]


SENTENCES = {
    Fault.FORBIDDEN: "The host has an address to which the service does not send.",
    Fault.DNS: "The name of the host was not found.",
    Fault.CONNECT: "The host refused the connection.",
    Fault.TLS: "The host has no valid certificate for its name.",
    Fault.TIMEOUT: "The endpoint did not answer within 10 seconds.",
    Fault.BROKEN: "The connection ended before there was a whole answer.",
    Fault.UNPROVEN: "The endpoint did not prove that it knows the secret.",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one attempt.

    ``status`` is None if there was no HTTP answer; ``error`` then says why. Both are set if a test
    was answered without the proof. ``retry_after`` is in seconds, ``start`` is the beginning of the
    body, ``seconds`` how long the attempt took.
    """

    status: int | None = None
    error: Fault | None = None
    retry_after: float | None = None
    start: bytes = b""
    seconds: float = 0.0

    @property
    def is_success(self) -> bool:
        """Whether the endpoint took the message."""
        return self.error is None and self.status is not None and 200 <= self.status < 300


def retry_after(headers: Iterable[tuple[bytes, bytes]]) -> float | None:
    """The seconds of the Retry-After header, or None without a valid one."""
    for name, value in headers:
        if name.lower() == b"retry-after":
            return _seconds(value.decode("ascii", "replace").strip())
    return None


def _seconds(text: str) -> float | None:
    if text.isascii() and text.isdigit() and len(text) < LONGEST_NUMBER:
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # the second for a year or a zone of many digits
        return None
    if at.tzinfo is None:
        return None
    return max(0.0, (at - datetime.now(UTC)).total_seconds())

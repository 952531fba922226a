"""What became of one message that was sent: the answer of the endpoint, or what went wrong."""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from django.db import models
from django.utils.http import parse_http_date_safe


class Fault(models.TextChoices):
    """Why a message failed, if no status says it. The label tells the owner of the endpoint."""

    FORBIDDEN = "forbidden", "The host has an address to which the service does not send."
    DNS = "dns", "The name of the host was not found."
    CONNECT = "connect", "The host refused the connection."
    TLS = "tls", "The host has no valid certificate for its name."
    TIMEOUT = "timeout", "The endpoint did not answer within 10 seconds."
    BROKEN = "broken", "The connection ended before there was a whole answer."
    UNPROVEN = "unproven", "The endpoint did not prove that it knows the secret."


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
    given = next((value for name, value in headers if name.lower() == b"retry-after"), b"")
    text = given.decode("ascii", "replace").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    at = parse_http_date_safe(text)
    return None if at is None else max(0.0, at - time.time())

"""Refusals for a time, and errors of the service itself: 429, 500 and 503."""

from collections.abc import Mapping

from events.http.refusals.base import Refused
from events.waits import Wait


class RateLimited(Refused):
    code, status, title = "rate_limited", 429, "Too many requests"
    detail = "Wait for the number of seconds in the Retry-After header, then try again."

    def __init__(self, retry_after: int, budget: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.headers |= {"Retry-After": str(retry_after), **(budget or {})}


class Internal(Refused):
    code, status, title = "internal", 500, "Internal error"
    detail = (
        "Nothing was changed. Send the request again. If it fails again, contact us and quote the "
        "requestId."
    )


class Unavailable(Refused):
    code, status, title = "unavailable", 503, "Temporarily unavailable"
    detail = (
        "Send the same request again after the number of seconds in Retry-After. Keep the nonce of "
        "a signal: it may have been recorded."
    )

    def __init__(self, wait: Wait, detail: str | None = None, retry_after: int = 1) -> None:
        super().__init__(detail or f"{ENDED[wait]} {self.detail}")
        self.wait = wait
        self.headers["Retry-After"] = str(retry_after)


# The wait that ended, in a sentence.
ENDED = {
    Wait.QUEUE: "The request waited too long for its turn to write.",
    Wait.CONNECTION: "No connection to the database was free in time.",
    Wait.LOCK: "Somebody else wrote to the database for too long.",
    Wait.STATEMENT: "The database took too long.",
    Wait.PROCESS: "The server was too busy to go on in time.",
    Wait.DATABASE: "The database is not available.",
    Wait.CACHE: "The cache is not available.",
    Wait.READERS: "No place for another reader is free.",
    Wait.DOWNLOADS: "No place for another download is free.",
    Wait.PASSWORDS: "Many passwords are being checked.",
}

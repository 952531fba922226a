"""Refusals for a time, and errors of the service itself: 429, 500 and 503."""

from collections.abc import Mapping

from events.http.refusals.base import Refused


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

    def __init__(self, detail: str | None = None, retry_after: int = 1) -> None:
        super().__init__(detail)
        self.headers["Retry-After"] = str(retry_after)

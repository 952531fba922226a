"""What pages weigh: what a browser without a cache receives, headers included.

nginx passes on what the server sends. Pages that read a session are not compressed (BREACH).
"""

from collections import defaultdict
from typing import Any, NamedTuple

from playwright.sync_api import Page

MOST = 150_000  # bytes; the reference of the whole API alone has more
HEAVY = ("/api/docs",)


class Weight(NamedTuple):
    """Requests, bytes that were received, and bytes after decompression, without headers."""

    requests: int
    received: int
    raw: int


class Scale:
    """Weighs what a page loads. Streams do not end, and count for nothing."""

    def __init__(self, page: Page) -> None:
        self._ends: list[int] = []
        self._raw = 0
        devtools = page.context.new_cdp_session(page)
        devtools.on("Network.loadingFinished", self._finished)
        devtools.on("Network.dataReceived", self._received)
        devtools.send("Network.enable")
        devtools.send("Network.setCacheDisabled", {"cacheDisabled": True})

    def _finished(self, event: dict[str, Any]) -> None:
        self._ends.append(int(event["encodedDataLength"]))

    def _received(self, event: dict[str, Any]) -> None:
        self._raw += int(event["dataLength"])

    def take(self) -> Weight:
        """The weight of what was loaded since the last call."""
        taken = Weight(len(self._ends), sum(self._ends), self._raw)
        self._ends, self._raw = [], 0
        return taken


# The rows of the table, by the beginning of the path.
GROUPS = {
    "/api/docs": "the reference of the API, `/api/docs`",
    "/api/": "the contract page, `/api/v1` and `/api/hooks/signal`",
    "/problems": "refusals, `/problems`",
    "/desk": "desk, `/desk…`",
    "/bots": "bots, `/bots…`",
    "/webhooks": "webhooks, `/webhooks…`",
    "/activity": "activity, `/activity…`",
    "/notices": "notices, `/notices…`",
    "/accounts/": "account, `/accounts/…`",
    "/control/": "control area, `/control/…`",
    "/": "home, `/`",
}


def table(weights: dict[str, Weight]) -> list[str]:
    """The lines of the table: for each group of pages the lightest and the heaviest."""
    groups = defaultdict[str, list[Weight]](list)
    for path, weight in weights.items():
        start = next(start for start in GROUPS if path.startswith(start))
        groups[start].append(weight)
    lines = ["| pages | number | requests | KB received | KB without compression |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for start, name in GROUPS.items():
        of = groups[start]
        requests = _range([weight.requests for weight in of])
        received, raw = (
            _range([round(number / 1000) for number in numbers])
            for numbers in ([each.received for each in of], [each.raw for each in of])
        )
        lines.append(f"| {name} | {len(of)} | {requests} | {received} | {raw} |")
    return lines


def _range(numbers: list[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"

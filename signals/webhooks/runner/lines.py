"""Connections to endpoints that are kept between sessions, for some seconds."""

import time

from signals.outbound.transport import KEEP_ALIVE, Client, Endpoint
from signals.webhooks.runner.leases import Leased

MOST = 1000


class Lines:
    """Endpoints that are not in use, by subscription. The one that waited longest goes first."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kept: dict[int, tuple[Endpoint, str, float]] = {}

    def take(self, leased: Leased) -> Endpoint:
        """The kept connection to this URL, or a new one."""
        endpoint, url, _ = self._kept.pop(leased.row.pk, (None, "", 0.0))
        if endpoint is not None and url == leased.url:
            return endpoint
        return self._client.endpoint(leased.url)

    def put(self, leased: Leased, endpoint: Endpoint) -> None:
        self._kept[leased.row.pk] = endpoint, leased.url, time.monotonic() + KEEP_ALIVE

    async def close_old(self, *, all_of_them: bool = False) -> None:
        """Ends the connections that nobody used for a while, and what is too many."""
        now = time.monotonic()
        old = [pk for pk, (_, _, end) in self._kept.items() if all_of_them or end < now]
        too_many = max(0, len(self._kept) - len(old) - MOST)
        for pk in [*old, *[pk for pk in self._kept if pk not in old][:too_many]]:
            endpoint, _, _ = self._kept.pop(pk, (None, "", 0.0))
            if endpoint is not None:  # another session took it while one was being closed
                await endpoint.close()

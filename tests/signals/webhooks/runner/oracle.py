"""What each endpoint must have heard, compared with what it did hear."""

from collections.abc import Sequence
from typing import Any

from events.feed import Query, read_page
from signals.client.webhooks import InvalidWebhookError, verify_webhook
from tests.described import described
from tests.signals.outbound.listeners import Request

EVERYTHING = 10**6
ANY_AGE = 10**9  # seconds: the oracle looks at old messages too


def must_hear(subscription: Any, after: int) -> list[int]:
    """The positions that the subscription's view of the feed shows after this one, in order.

    A page ends after some elections, too, so there may be several.
    """
    positions: list[int] = []
    has_more = True
    while has_more:
        query = Query(after=after, kinds=tuple(subscription.kinds), limit=EVERYTHING)
        page = read_page(query, subscription.visibility)
        positions += [event.position for event in page.events]
        after, has_more = page.examined, page.more
    return positions


def heard(requests: Sequence[Request], secrets: Sequence[str]) -> list[int]:
    """The positions that were delivered, in order, with repetitions.

    Every signature is valid, and the first message of each kind is as the document describes it.
    Tests do not count: a runner may send one before ``stage.subscribe`` calls the URL tested.
    """
    positions, kinds = [], set()
    for request in requests:
        if request.headers["webhook-id"].startswith("sub_"):
            continue
        event = _event(request, secrets)
        if event["kind"] not in kinds:
            kinds.add(event["kind"])
            assert described().message_faults(request.headers, request.body) == []
        positions.append(int(event["position"]))
    return positions


def first_heard(requests: Sequence[Request], secrets: Sequence[str]) -> list[int]:
    """The positions in the order in which they were delivered first."""
    return list(dict.fromkeys(heard(requests, secrets)))


def _event(request: Request, secrets: Sequence[str]) -> dict[str, Any]:
    for secret in secrets:
        try:
            message = verify_webhook(request.body, request.headers, secret, tolerance=ANY_AGE)
        except InvalidWebhookError:
            continue
        event: dict[str, Any] = message["data"]
        named = request.headers["webhook-id"].split("_")
        assert (named[0], int(named[1])) == ("evt", event["position"])
        assert (message["type"], message["timestamp"]) == (event["kind"], event["at"])
        return event
    raise AssertionError("a message was signed wrongly")

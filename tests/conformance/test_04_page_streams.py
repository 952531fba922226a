"""Section 4, GET /activity/stream and GET /control/stream: pages hear that there is news."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx2
import pytest

from tests.conformance.browser import Browser

STREAM = "/activity/stream"
PATIENCE = 60  # seconds


@pytest.fixture
def owner(service):
    """The seeded user in a browser of their own, which the test may sign out."""
    with Browser(service) as browser:
        browser.sign_in(service.seed["user"])
        yield browser


@contextmanager
def stream(browser: Browser, path: str = STREAM) -> Iterator[tuple[httpx2.Response, Any]]:
    """Opens the stream of a signed-in browser. Yields its response and its messages.

    The places of the streams before it are free once the service sees them closed.
    """
    deadline = time.monotonic() + PATIENCE
    cookies = {cookie.name: str(cookie.value) for cookie in browser.http.cookies.jar}
    with (
        httpx2.Client(
            base_url=browser.service.base_url,
            verify=browser.service.trusted,
            cookies=cookies,
            trust_env=False,
            timeout=PATIENCE,
        ) as http,
        ExitStack() as opened,
    ):
        while (source := opened.enter_context(http.sse(path))).response.status_code in (429, 503):
            opened.close()
            assert time.monotonic() < deadline, "no place became free"
        yield source.response, iter(source)


def hinted(messages):
    """The position that the next hint tells, and nothing else."""
    message = next(message for message in messages if message.data)
    assert message.event == "news"
    (told,) = json.loads(message.data).items()
    assert told[0] == "position"
    return told[1]


def test_each_event_of_the_desk_is_a_hint_and_no_event_of_another_desk(service, owner):
    """Section 4: event: news with the position; the frames are those of the feed."""

    def fills(user_id):
        signal = service.deploy(user_id, service.one_desk()).json()["signal"]
        return signal["position"]

    with stream(owner) as (response, messages):
        assert response.headers["Content-Type"] == "text/event-stream"
        assert response.headers["Cache-Control"] == "no-store"
        assert 2000 <= next(messages).retry <= 6000
        fills(service.other_desk)
        filled = fills(service.own_desk)
        assert hinted(messages) == filled


def test_staff_get_a_hint_for_every_event_of_the_log(service, admin, owner):
    """Section 4: for staff, of the log."""
    with stream(admin, "/control/stream") as (_, messages):
        next(messages)
        signal = service.deploy(service.other_desk, service.one_desk()).json()["signal"]
        assert hinted(messages) == signal["position"]
    with stream(owner, "/control/stream") as (response, _):
        assert response.status_code == 403


def test_signing_out_ends_the_stream(service, owner):
    """Section 4: event: end with the reason signed_out."""
    with stream(owner) as (_, messages):
        next(messages)
        owner.post("/accounts/logout/", {}, seen_at="/desk")
        end = next(message for message in messages if message.data)
        assert (end.event, json.loads(end.data)) == ("end", {"reason": "signed_out"})
        assert list(messages) == []


def test_a_visitor_gets_no_stream(service):
    """Section 4: by session."""
    with Browser(service) as visitor, stream(visitor) as (response, _):
        assert response.status_code == 302


def test_a_client_that_goes_away_leaves_its_place_to_the_next(service, owner):
    """Otherwise whoever opens a few pages in a row finds every place taken by those before."""
    for _ in range(5):
        with stream(owner) as (response, _):
            assert response.status_code == 200

"""The streams of the pages: hints for whom a session signed in, and their end with it."""

import json
import time
from contextlib import contextmanager

import httpx2
import pytest

from tests.conformance.browser import Browser
from tests.conformance.client import Service
from tests.server import serving

pytestmark = [pytest.mark.processes, pytest.mark.once]

STREAM = "/activity/stream"
PATIENCE = 60  # seconds


@pytest.fixture(scope="module")
def service():
    with serving() as server, Service(server.base_url, server.seed) as service:
        yield service


@pytest.fixture
def owner(service):
    with Browser(service) as browser:
        browser.sign_in(service.seed["user"])
        yield browser


@contextmanager
def stream(browser, path=STREAM):
    """Opens the stream of a signed-in browser. Yields its response and its messages."""
    cookies = {cookie.name: cookie.value for cookie in browser.http.cookies.jar}
    address = browser.service.base_url
    with (
        httpx2.Client(base_url=address, cookies=cookies, trust_env=False, timeout=PATIENCE) as http,
        http.sse(path) as source,
    ):
        yield source.response, iter(source)


def hinted(messages):
    """The position that the next hint tells, and nothing else."""
    message = next(message for message in messages if message.data)
    assert message.event == "news"
    (told,) = json.loads(message.data).items()
    assert told[0] == "position"
    return told[1]


def test_each_event_of_the_desk_is_a_hint_and_no_event_of_another_desk(service, owner):
    def fills(user_id):
        service.deploy(user_id, service.one_desk())
        return service.events(userId=user_id)[-1]["position"]

    with stream(owner) as (response, messages):
        assert response.headers["Content-Type"] == "text/event-stream"
        assert response.headers["Cache-Control"] == "no-store"
        assert 2000 <= next(messages).retry <= 6000
        fills(service.other_desk)
        filled = fills(service.own_desk)
        assert hinted(messages) == filled


def test_staff_get_a_hint_for_every_event_of_the_log(service, owner):
    with Browser(service) as admin:
        admin.sign_in(service.seed["admin"])
        with stream(admin, "/control/stream") as (_, messages):
            next(messages)
            service.deploy(service.other_desk, service.one_desk())
            event = service.events(userId=service.other_desk)[-1]
            assert hinted(messages) == event["position"]
    with stream(owner, "/control/stream") as (response, _):
        assert response.status_code == 403


def test_signing_out_ends_the_stream(service, owner):
    with stream(owner) as (_, messages):
        next(messages)
        owner.post("/accounts/logout/", {}, seen_at="/desk")
        end = next(message for message in messages if message.data)
        assert (end.event, json.loads(end.data)) == ("end", {"reason": "signed_out"})
        assert list(messages) == []


def test_a_visitor_gets_no_stream(service):
    with Browser(service) as visitor, stream(visitor) as (response, _):
        assert response.status_code == 302


def test_a_client_that_goes_away_leaves_its_place_to_the_next(service, owner):
    """Otherwise whoever opens a few pages in a row finds every place taken by those before."""
    for _ in range(5):
        deadline = time.monotonic() + PATIENCE
        while True:
            with stream(owner) as (response, _):
                if response.status_code == 200:
                    break
                assert response.status_code == 503
            assert time.monotonic() < deadline, "no place became free"

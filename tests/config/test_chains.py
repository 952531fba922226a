"""Which middleware a request passes through: the API's short chain, or the chain of pages."""

from typing import Any

import pytest
from django.test import Client

from events.http.api_view import ApiView
from tests.client import CATALOG, DESKS, EVENTS, HOOK, JSON, ME, TOKENS, deploy_path

pytestmark = [pytest.mark.django_db, pytest.mark.once]


@pytest.mark.parametrize(
    "path",
    [
        CATALOG + "/",
        CATALOG + "/nothing",
        ME,
        DESKS,
        EVENTS,
        HOOK,
        TOKENS + "-of-others",
        "/api/schema",
    ],
)
def test_the_api_has_no_session(path):
    assert not hasattr(Client().get(path).wsgi_request, "session")


@pytest.mark.parametrize("path", [HOOK, deploy_path("usr_" + "a" * 22)])
def test_a_signal_has_no_session(path):
    assert not hasattr(Client().post(path, b"{}", JSON).wsgi_request, "session")


@pytest.mark.parametrize(
    "path", ["/", "/nothing", "/api", "/accounts/login/", "/healthz", TOKENS, "/api/docs"]
)
def test_pages_and_what_accepts_a_session_under_api_have_one(path):
    assert hasattr(Client().get(path).wsgi_request, "session")


def test_an_error_before_the_view_begins_is_one_answer_with_every_header(monkeypatch):
    def fail(*_: Any) -> None:
        raise RuntimeError("No.")

    monkeypatch.setattr(ApiView, "initialize_request", fail)
    response = Client(raise_request_exception=False).get(ME)
    assert (response.status_code, response.json()["code"]) == (500, "internal")
    assert response["X-Request-Id"] == response.json()["requestId"]
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Cache-Control"] == "no-store"

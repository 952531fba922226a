"""Which middleware a request passes through: the API's short chain, or the chain of pages."""

import importlib
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from config.catalog import CatalogView
from events.http.api_view import ApiView
from tests.client import CATALOG, DESKS, EVENTS, HOOK, JSON, ME, TOKENS, deploy_path

pytestmark = [pytest.mark.django_db, pytest.mark.once]

REQUESTS = "config.middleware.requests"
COMMON = [
    f"{REQUESTS}.request_id",
    f"{REQUESTS}.log_requests",
    f"{REQUESTS}.add_security_headers",
    f"{REQUESTS}.strip_head_bodies",
]
OF_API = [
    *COMMON,
    "config.middleware.compression.compress",
    f"{REQUESTS}.conditional_get",
    f"{REQUESTS}.prevent_caching",
    f"{REQUESTS}.check_host",
    f"{REQUESTS}.sanitize_requests",
    "config.middleware.first_checks.check_requests",
]
OF_PAGES = [
    *COMMON,
    f"{REQUESTS}.conditional_get",
    f"{REQUESTS}.prevent_caching",
    f"{REQUESTS}.check_host",
    f"{REQUESTS}.sanitize_requests",
    f"{REQUESTS}.sanitize_cookies",
    f"{REQUESTS}.HandleErrors",
    "django.middleware.security.SecurityMiddleware",
    "config.middleware.first_checks.StaticFiles",
    "config.middleware.first_checks.check_requests",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "config.middleware.forms.ValidateForms",
    "django.middleware.csrf.CsrfViewMiddleware",
    "config.accounts.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
]
HOOKS = ("process_view", "process_exception", "process_template_response")


@pytest.fixture
def passed(monkeypatch, settings) -> list[str]:
    """The names of the middleware that requests passed through, in order."""
    names: list[str] = []

    def noting(name: str, factory: Callable[..., Any]) -> Callable[..., Any]:
        def build(get_response: Callable[..., Any]) -> Callable[..., Any]:
            built = factory(get_response)

            def middleware(request: Any) -> Any:
                names.append(name)
                return built(request)

            for hook in HOOKS:
                if hasattr(built, hook):
                    setattr(middleware, hook, getattr(built, hook))
            return middleware

        return build

    for name in {*settings.MIDDLEWARE[1:], *settings.API_MIDDLEWARE}:
        module, attribute = name.rsplit(".", 1)
        factory = getattr(importlib.import_module(module), attribute)
        monkeypatch.setattr(f"{module}.{attribute}", noting(name, factory))
    return names


@pytest.mark.parametrize(
    "path", [CATALOG + "/", CATALOG + "/nothing", ME, DESKS, EVENTS, HOOK, "/api/schema"]
)
def test_the_api_is_served_by_the_short_chain(passed, path):
    Client().get(path)
    assert passed == OF_API


@pytest.mark.parametrize("path", [HOOK, deploy_path("usr_" + "a" * 22)])
def test_a_signal_is_served_by_the_short_chain(passed, path):
    Client().post(path, b"{}", JSON)
    assert passed == OF_API


@pytest.mark.parametrize("path", ["/", "/nothing", "/api", "/accounts/login/", "/healthz"])
def test_pages_are_served_by_the_whole_chain(passed, path):
    Client().get(path)
    assert passed == OF_PAGES


@pytest.mark.parametrize("path", [TOKENS, "/api/docs"])
def test_what_accepts_a_session_under_api_is_served_as_pages_are(passed, path):
    Client().get(path)
    assert passed == OF_PAGES


def test_the_first_entry_chooses_the_chain(settings):
    first, *rest = settings.MIDDLEWARE
    assert (first, rest) == ("config.middleware.chains.serve_api", OF_PAGES)
    assert settings.API_MIDDLEWARE == OF_API


def test_an_error_before_the_view_begins_is_one_answer_with_every_header(monkeypatch):
    def fail(*_: Any) -> None:
        raise RuntimeError("No.")

    monkeypatch.setattr(ApiView, "initialize_request", fail)
    response = Client(raise_request_exception=False).get(ME)
    assert (response.status_code, response.json()["code"]) == (500, "internal")
    assert response["X-Request-Id"] == response.json()["requestId"]
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Cache-Control"] == "no-store"


def test_the_api_reads_no_cookie():
    browser = Client()
    browser.cookies["session"] = "x"
    assert "COOKIES" not in vars(browser.get(ME).wsgi_request)


def test_a_response_keeps_a_security_header_of_its_own(monkeypatch):
    def get(self: Any, request: Any) -> Any:
        response = original(self, request)
        response["Referrer-Policy"] = "no-referrer"
        return response

    original = CatalogView.get
    monkeypatch.setattr(CatalogView, "get", get)
    response = Client().get(CATALOG)
    assert response["Referrer-Policy"] == "no-referrer"
    assert response["X-Frame-Options"] == "DENY"

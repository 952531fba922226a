"""Permissions: a view refuses every method that it does not declare."""

import pytest
from django.urls import get_resolver
from rest_framework.test import APIRequestFactory

from events.http.api_view import ApiResponse, ApiView
from events.http.refusals import NotAllowed
from tests.client import DESKS, bearer, code, get, post
from tests.factories import a_desk, a_desk_token, a_platform_token
from tokens.callers.authentication import BearerAuthentication
from tokens.callers.permissions import DeclaredScope

pytestmark = [pytest.mark.django_db, pytest.mark.once]

PUBLIC_TO_ALL = {"catalog", "schema"}


class Undeclared(ApiView):
    """A view that declares no scopes."""

    authentication_classes = [BearerAuthentication]

    def get(self, request):
        return ApiResponse({})


def api_views():
    """The views of the API, by URL name."""
    for pattern in get_resolver().url_patterns:
        for inner in getattr(pattern, "url_patterns", [pattern]):
            view = getattr(inner.callback, "cls", None)
            if view is not None and issubclass(view, ApiView):
                yield inner.name, view


def test_a_view_that_declares_nothing_refuses_every_token():
    for token in (a_platform_token(), a_desk_token(a_desk())):
        request = APIRequestFactory().get("/api/v1/undeclared", headers=bearer(token))
        with pytest.raises(NotAllowed):
            Undeclared.as_view()(request)


def test_every_view_of_the_api_authenticates_except_the_public_ones():
    views = dict(api_views())
    assert {"catalog", "me", "desks", "desk-record", "events", "tokens", "deploy", "hook"} <= set(
        views
    )
    for name, view in views.items():
        if name in PUBLIC_TO_ALL:
            assert view.authentication_classes == []
        else:
            assert view.authentication_classes != []


def test_every_view_declares_scopes_or_has_its_own_permissions():
    for name, view in api_views():
        declares = any(issubclass(each, DeclaredScope) for each in view.permission_classes)
        closed_by_scope = declares and view.required_scopes
        assert closed_by_scope or name in {*PUBLIC_TO_ALL, "tokens"}, name


def test_the_detail_names_the_missing_scope():
    response = get(DESKS, a_platform_token("write"))
    assert code(response) == "scope_missing"
    assert "read" in response.json()["detail"]


def test_a_post_with_a_method_override_header_stays_a_post():
    token = a_platform_token("read")
    response = post(DESKS, {}, token, headers={"X-HTTP-Method-Override": "GET"})
    assert response.status_code == 405


def test_a_refused_token_learns_which_kind_to_use():
    for token, path, kind in (
        (a_desk_token(a_desk()), DESKS, "platform"),
        (a_platform_token(), "/api/v1/me", "desk"),
    ):
        answer = get(path, token)
        assert code(answer) == "not_allowed"
        assert (
            answer.json()["detail"] == f"Use a {kind} token: no other kind may call this endpoint."
        )

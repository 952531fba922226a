"""A view that declares nothing is closed, and a refusal says which token to use."""

import pytest
from rest_framework.test import APIRequestFactory

from events.http.api_view import ApiResponse, ApiView
from events.http.refusals import NotAllowed
from tests.client import DESKS, ME, bearer, code, get, post
from tests.factories import a_desk, a_desk_token, a_platform_token
from tokens.callers.authentication import BearerAuthentication

pytestmark = [pytest.mark.django_db, pytest.mark.once]


class Undeclared(ApiView):
    """A view that declares no scopes."""

    authentication_classes = [BearerAuthentication]

    def get(self, request):
        return ApiResponse({})


def test_a_view_that_declares_nothing_refuses_every_token():
    for token in (a_platform_token(), a_desk_token(a_desk())):
        request = APIRequestFactory().get("/api/v1/undeclared", headers=bearer(token))
        with pytest.raises(NotAllowed):
            Undeclared.as_view()(request)


def test_a_refused_token_learns_which_kind_to_use():
    for token, path, kind in (
        (a_desk_token(a_desk()), DESKS, "platform"),
        (a_platform_token(), ME, "desk"),
    ):
        answer = get(path, token)
        assert code(answer) == "not_allowed"
        assert answer.json()["detail"].startswith(f"Use a {kind} token: ")


def test_a_post_with_a_method_override_header_stays_a_post():
    token = a_platform_token("read")
    response = post(DESKS, {}, token, headers={"X-HTTP-Method-Override": "GET"})
    assert response.status_code == 405

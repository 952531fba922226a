"""The control area's pages for tokens."""

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone
from django.utils.html import strip_tags

from events.actors import SYSTEM
from events.models import Event
from tests import factories, staff
from tests.client import DESKS, code, deploy_path, get, post
from tests.signals import bodies
from tests.staff import staff_client  # noqa: F401 - the fixture "client"
from tokens import actions
from tokens.crypto import formats
from tokens.models import Token

ENGINE = {"name": "Engine", "scopes": ["read", "write"], "expiresAt": ""}

pytestmark = [pytest.mark.django_db, pytest.mark.once]


def mint(client: Client, **changes: object) -> str:
    """Submits the form and returns the value that the response shows."""
    response = client.post(staff.list_of(Token, "mint"), {**ENGINE, **changes})
    assert response.status_code == 200
    return str(response.context["value"])


def listed(client: Client, **query: str) -> list[Token]:
    return list(client.get(staff.list_of(Token), query).context["cl"].result_list)


# --- Minting -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scopes", "pull", "deploy"),
    [(["read"], "ok", "scope_missing"), (["write"], "scope_missing", "ok")],
)
def test_a_token_has_exactly_the_selected_scopes(client, desk, scopes, pull, deploy):
    value = mint(client, scopes=scopes)
    assert code(get(DESKS, value)) == pull
    assert code(post(deploy_path(desk.public_id), bodies.deploy(), value)) == deploy


def test_the_value_is_shown_only_in_the_response_to_the_form(client, caplog):
    caplog.set_level("DEBUG")
    response = client.post(staff.list_of(Token, "mint"), ENGINE)
    value, token = response.context["value"], Token.objects.get()
    assert formats.is_credential(value, formats.PLATFORM_TOKEN)
    assert response.content.decode().count(value) == 2  # alone, and in a request that uses it
    assert f"Bearer {value}" in html.unescape(response.content.decode())
    assert "no-store" in response["Cache-Control"]
    later = [staff.page_of(token), staff.list_of(Token), staff.list_of(Token, "mint"), "/control/"]
    elsewhere = [
        *(client.get(page).content.decode() for page in later),
        client.get(staff.page_of(Event.objects.get())).content.decode(),
        *(str(session.get_decoded()) for session in Session.objects.all()),
        *(cookie.value for cookie in client.cookies.values()),
        *(str(headers) for headers in response.headers.items()),
        str(Event.objects.values()[0]),
        str(Token.objects.values()[0]),
        caplog.text,
    ]
    assert not any(value in text for text in elsewhere)


def test_an_expiry_is_in_utc_and_holds(client, time_machine):
    moment = timezone.now().replace(second=0, microsecond=0) + timedelta(hours=2)
    value = mint(client, expiresAt=moment.strftime("%Y-%m-%dT%H:%M"))
    assert Token.objects.get().expires_at == moment
    assert code(get(DESKS, value)) == "ok"
    time_machine.move_to(moment)
    assert code(get(DESKS, value)) == "token_invalid"
    control: Any = staff.control_of(Token)
    assert [strip_tags(control.state(token)) for token in Token.objects.all()] == ["expired"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("scopes", []),
        ("scopes", ["admin"]),
        ("expiresAt", "2020-01-01T00:00"),
        ("expiresAt", "9999-12-31T23:59-14:00"),
    ],
)
def test_an_invalid_token_form_shows_the_error_at_its_field(client, field, value):
    response = client.post(staff.list_of(Token, "mint"), {**ENGINE, field: value})
    assert response.status_code == 422
    assert list(response.context["form"].errors) == [field]
    assert not Token.objects.exists()


def test_minting_and_generating_share_a_limit_and_an_invalid_form_does_not_count(client, settings):
    settings.LIMITS = {**settings.LIMITS, "minting": "2/hour"}
    pages = [staff.list_of(Token, "mint"), "/control/tokens/signingsecret/generate-floor/"]
    client.post(pages[0], {**ENGINE, "name": ""})
    answers = [client.post(page, {**ENGINE, "overlap": "0"}) for page in (*pages, *pages)]
    assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
    assert staff.refusal(answers[-1]) == "rate_limited"
    assert Token.objects.count() == 1


# --- Revoking ------------------------------------------------------------------------------------


def test_a_revoked_token_is_refused_from_the_next_request_on(client):
    value = mint(client)
    token = Token.objects.get()
    response = client.post(staff.page_of(token, "revoke"))
    assert response["Location"] == staff.page_of(token)
    assert code(get(DESKS, value)) == "token_invalid"
    assert "The token is revoked." in client.get(staff.page_of(token)).content.decode()


def test_a_token_is_revoked_once(client):
    mint(client)
    token = Token.objects.get()
    actions.revoke(token=token, actor=SYSTEM)
    for response in (
        client.get(staff.page_of(token, "revoke")),
        client.post(staff.page_of(token, "revoke")),
    ):
        assert (response.status_code, staff.refusal(response)) == (422, "invalid")
    assert ">Revoke<" not in client.get(staff.page_of(token)).content.decode()


# --- Reading -------------------------------------------------------------------------------------


def test_the_platforms_tokens_are_listed_first_and_customers_beside_them(client, desk):
    factories.a_desk_token(desk)
    mint(client, name="First")
    mint(client, name="Second")
    of_desk = Token.objects.get(desk=desk)
    assert [token.name for token in listed(client)] == ["Second", "First"]
    assert [token.name for token in listed(client, owner="the platform")] == ["Second", "First"]
    assert listed(client, owner="customers") == [of_desk]
    assert listed(client, q=desk.public_id) == [of_desk]
    assert listed(client, q=of_desk.public_id) == [of_desk]
    assert listed(client, q="tok_none") == []
    assert [token.name for token in listed(client, q="")] == ["Second", "First"]


def test_the_list_shows_scopes_and_state(client):
    mint(client, name="Reader", scopes=["read"])
    mint(client, name="Gone")
    actions.revoke(token=Token.objects.get(name="Gone"), actor=SYSTEM)
    text = client.get(staff.list_of(Token)).content.decode()
    assert re.findall(r'"(?:field-scopes|state[^"]*)">([^<]*)<', text) == [
        *("read, write", "revoked"),
        *("read", "active"),
    ]

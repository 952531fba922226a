"""Browsers of staff members: signed in with or without a second factor, recently or long ago."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
import time_machine
from allauth.account.internal.flows.login import record_authentication
from allauth.account.models import EmailAddress
from allauth.mfa.totp.internal import auth as totp
from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from django.test import Client
from django.urls import reverse

from desks.models import Card, User
from events.control.pages import ReadOnlyAdmin
from tests.client import Response, keep, session_of
from tests.factories import PASSWORD, a_staff_user
from tokens.callers.staff import SIGNED_IN_AT

LONG_AGO = 16 * 60  # seconds: a sign-in that is no longer recent
TOO_OLD = 12 * 3600 + 1  # seconds since a staff session was opened


@pytest.fixture(name="client")
def staff_client(settings: Any) -> Client:
    """A browser of a staff member who signed in with the required second factor."""
    settings.REQUIRE_STAFF_MFA = True
    return a_client()


def a_client(
    user: User | None = None,
    *methods: str,
    seconds_ago: int = 0,
    opened_ago: int = 0,
    **options: Any,
) -> Client:
    """A browser of a staff member whose session holds these sign-in methods.

    The session was opened ``opened_ago`` seconds ago. The last sign-in or re-authentication was
    ``seconds_ago``.
    """
    user = user or a_staff_user()
    client = Client(**options)
    session = session_of(user)
    request = HttpRequest()
    request.user, request.session = user, session
    for method in methods or ("password", "mfa"):
        record_authentication(request, user, method)
    for record in session.get("account_authentication_methods", []):
        record["at"] = time.time() - seconds_ago
    session[SIGNED_IN_AT] = time.time() - max(opened_ago, seconds_ago)
    keep(client, session)
    return client


def verified(user: User) -> User:
    """The user, with a verified e-mail address, which signing in requires."""
    EmailAddress.objects.create(user=user, email=user.email, verified=True, primary=True)
    return user


def with_totp(user: User) -> str:
    """The secret of a TOTP second factor that is activated for the user. Verifies the address."""
    verified(user)
    secret = totp.generate_totp_secret()
    totp.TOTP.activate(user, secret)
    return secret


def sign_in(client: Client, user: User, secret: str) -> Response:
    """Signs in through the pages, with password and second factor."""
    give_password(client, user)
    return give_code(client, reverse("mfa_authenticate"), secret)


def give_code(client: Client, path: str, secret: str) -> Response:
    """Posts the current TOTP code. The clock stands still, so that the code cannot expire."""
    with time_machine.travel(time.time(), tick=False):
        return client.post(path, {"code": code_of(secret)})


def give_password(client: Client, user: User) -> Response:
    """The password step of signing in, which is all of it for a user without a second factor."""
    fields = {"login": user.email, "password": PASSWORD}
    return client.post(reverse("account_login"), fields)


def code_of(secret: str) -> str:
    counter = next(totp.yield_hotp_counters_from_time())
    return totp.format_hotp_value(totp.hotp_value(secret, counter))


def refusal(response: Response) -> str:
    """The code of a problem page, or ``ok`` for any other page."""
    problem = (response.context or {}).get("problem")
    return problem["code"] if problem else "ok"


def publish(client: Client, card: dict[str, str]) -> Response:
    """Publishes a card in both steps, and returns the answer to the second."""
    page = list_of(Card, "publish")
    asked = client.post(page, card)
    return client.post(page, {**card, "retires": asked.context["retires"]})


def page_of(row: Model, name: str = "change") -> str:
    """The path of a row's page in the control area, or of one of its actions."""
    return control_of(type(row)).page_url(name, row)


def list_of(model: type[Model], name: str = "changelist") -> str:
    return control_of(model).page_url(name)


def control_of(model: type[Model]) -> ReadOnlyAdmin:
    control = admin.site._registry[model]
    assert isinstance(control, ReadOnlyAdmin)
    return control


def every_control() -> Iterator[ReadOnlyAdmin]:
    for model in admin.site._registry:
        yield control_of(model)

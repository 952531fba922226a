"""Staff at a browser: signed in with or without a second factor, lately or long ago."""

import time
from collections.abc import Iterator
from typing import Any

from allauth.account.internal.flows.login import record_authentication
from allauth.account.models import EmailAddress
from allauth.mfa.totp.internal import auth as totp
from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import reverse

from desks.models import User
from events.control import ReadOnly
from tests.factories import PASSWORD, a_staff_user

LONG_AGO = 16 * 60


def a_client(
    user: User | None = None, *methods: str, seconds_ago: int = 0, **options: Any
) -> Client:
    """A browser of a member of the staff whose session holds these methods of signing in."""
    user = user or a_staff_user()
    client = Client(**options)
    client.force_login(user)
    session = client.session
    request = HttpRequest()
    request.user, request.session = user, session
    for method in methods or ("password", "mfa"):
        record_authentication(request, user, method)
    for record in session.get("account_authentication_methods", []):
        record["at"] = time.time() - seconds_ago
    session.save()
    return client


def verified(user: User) -> User:
    """The user, with an address that was verified, so that signing in is let through."""
    EmailAddress.objects.create(user=user, email=user.email, verified=True, primary=True)
    return user


def with_totp(user: User) -> str:
    """The secret of a second factor that the user activates, whose address is verified."""
    verified(user)
    secret = totp.generate_totp_secret()
    totp.TOTP.activate(user, secret)
    return secret


def sign_in(client: Client, user: User, secret: str) -> HttpResponse:
    """Signs in through the site's own pages, with password and second factor."""
    give_password(client, user)
    return client.post(reverse("mfa_authenticate"), {"code": code_of(secret)})


def give_password(client: Client, user: User) -> HttpResponse:
    """The first half of signing in; for who has no second factor, all of it."""
    fields = {"login": user.email, "password": PASSWORD}
    return client.post(reverse("account_login"), fields)


def code_of(secret: str) -> str:
    counter = next(totp.yield_hotp_counters_from_time())
    return totp.format_hotp_value(totp.hotp_value(secret, counter))


def refusal(response: HttpResponse) -> str:
    """The code of the problem page, or ``ok`` for a page that is none."""
    problem = (response.context or {}).get("problem")
    return problem["code"] if problem else "ok"


def page_of(row: Model, name: str = "change") -> str:
    """The address of a row's page, or of what can be done with it."""
    return control_of(type(row)).url_of(name, row)


def list_of(model: type[Model], name: str = "changelist") -> str:
    return control_of(model).url_of(name)


def control_of(model: type[Model]) -> ReadOnly:
    control = admin.site._registry[model]
    assert isinstance(control, ReadOnly)
    return control


def every_control() -> Iterator[ReadOnly]:
    for model in admin.site._registry:
        yield control_of(model)

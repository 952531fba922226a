"""Who may do what: every route of the URL map and every method, by everybody there is.

The table is ``tests/config/permissions.py``. The routes come from the URL map. One without its row
fails, and so does a row without its route or its method. That another method is refused to
everybody, before it is asked who one is, stands in ``test_first_checks.py``.
"""

import functools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.db import transaction
from django.test import Client
from django.urls import resolve
from django.utils import timezone

from config.middleware import methods_of
from desks.models import Desk, QueuedNotice, User
from desks.models.notice import NoticeKind
from events.actors import SYSTEM
from events.models import Event
from signals.intake.models import Signal
from signals.notices.sending import stop_link as stop_link_of
from signals.webhooks.models import Subscription
from tests import factories, pages, staff
from tests.client import Response, end_stream, push, signed, written
from tests.config.permissions import (
    ACCOUNTS,
    BOT,
    BOTH,
    CONTROL,
    CUSTOMER,
    EVERYBODY,
    EXPIRED,
    FLOOR,
    IN,
    LONG_AGO,
    MFA,
    MODELS,
    NOBODY,
    NOX,
    ONE,
    OPEN,
    OTHER,
    OVER,
    OWN,
    OWNER,
    PROVE,
    READ,
    REVOKED,
    ROWS,
    SESSIONS,
    SIGN_IN,
    SIGNED_IN,
    STAFF,
    WEBHOOK,
    WRITE,
)
from tests.routes import address, routes
from tests.signals import bodies
from tests.signals.notices.chats.stage import a_chat
from tests.signals.webhooks.stage import a_webhook
from tokens import actions
from tokens.choices import Source
from tokens.models import Token

pytestmark = [pytest.mark.django_db, pytest.mark.slow, pytest.mark.once]

# --- The URL map ---------------------------------------------------------------------------------


def test_every_route_has_its_row_and_every_row_its_route():
    assert sorted(routes()) == sorted(
        [*ROWS, *(ACCOUNTS + page for page in OPEN), *(ACCOUNTS + page for page in SIGNED_IN)]
    )


def test_every_route_takes_the_methods_of_its_rows_and_no_other():
    for route, rows in ROWS.items():
        taken = set(methods_of(resolve(address(route)).func)) - {"HEAD", "OPTIONS"}
        assert {ask.partition(" ")[0] for ask in rows} == taken, route


# --- The world -----------------------------------------------------------------------------------


@dataclass
class World:
    """One object of each kind, every caller's credential, and the object of each path."""

    desk: Desk
    bot: factories.Bot
    webhook: Subscription
    bearers: dict[str, str]
    secrets: dict[str, str]
    browsers: dict[str, Client]
    sender: Client

    def path(self, route: str) -> str:
        """The address of a route, about the desk, its bot, or a row of the control area."""
        named = {
            "<userId:user_id>": lambda: self.desk.public_id,
            "<str:bot_id>": lambda: self.bot.id,
            "<str:secret_id>": lambda: self.bot.automation.secrets.get().public_id,
            "<str:event_id>": lambda: Event.objects.filter(topic=self.desk.public_id).last().id,
            "<signalId:signal_id>": lambda: Signal.objects.get(bot_id=self.bot.id).public_id,
            "<subscriptionId:subscription_id>": lambda: self.webhook.public_id,
            "<str:webhook_id>": lambda: self.webhook.public_id,
            "<str:chat_id>": lambda: self.desk.user.chats.get().public_id,
            "<str:code>": lambda: "malformed",
            "<str:token>": lambda: stop_link(self.desk.user),
            "^(?P<app_label>desks|events|signals|tokens)/$": lambda: "tokens/",
            "(?P<url>.*)$": lambda: "no/such/page/",
            ONE: lambda: str(quote(_model(route).objects.order_by("pk").first().pk)),
        }
        found = route
        for part, value in named.items():
            if part in route:
                found = found.replace(part, value())
        return f"/{found}"

    def request(self, who: str, method: str, route: str, what: str) -> Response:
        """A request of somebody's: lawful, where it is let in."""
        path, body = self.path(route), self.body(route, what)
        if what in ("the desk's", "the reading one") and route == "api/v1/tokens":
            whose = OWN if what == "the desk's" else READ
            path += f"?id={self._token(whose).public_id}"
        if what == "of a fan-out":
            path += f"?nonce={Signal.objects.get(fanout=True).nonce}&source=floor"
        if what == "of the desk's bot":
            path += f"?nonce={Signal.objects.get(bot_id=self.bot.id).nonce}&botId={self.bot.id}"
        raw = written(body) if body is not None else b""
        headers = {}
        if who in self.bearers:
            headers["Authorization"] = f"Bearer {self.bearers[who]}"
        if who in self.secrets:
            headers |= signed(self.secrets[who], body=raw)
        browser = self.browsers.get(who, self.sender)
        if who not in self.browsers:
            browser.cookies.clear()
        kind = "application/json" if body is not None else "application/x-www-form-urlencoded"
        return end_stream(browser.generic(method, path, raw, kind, headers=headers))

    def body(self, route: str, what: str) -> dict[str, Any] | None:
        if route in (f"{WEBHOOK}/rewind", f"{WEBHOOK}/resend"):
            return {}
        if route.endswith("/signal") and route.startswith("api/v1"):
            return bodies.deploy()
        made = {
            "floor": lambda: bodies.floor(self.desk),
            "nox": bodies.nox,
            "tradingview": lambda: bodies.tradingview(self.bot),
            "a desk's": lambda: {"scope": "desk"},
            "paused": lambda: {"paused": True},
            "all": lambda: {"events": "all"},
            "a webhook": lambda: {"url": "https://hooks.example.com"},
            "a platform's": lambda: {"scope": "platform", "name": "x", "scopes": ["read"]},
        }
        return made[what]() if what in made else None

    def _token(self, who: str) -> Token:
        return Token.objects.get(hint__endswith=self.bearers[who][-4:])


def stop_link(user: User) -> str:
    """The token of a link that turns the user's notices of silent bots off."""
    notice = QueuedNotice(user=user, kind=NoticeKind.SILENCE)
    return stop_link_of(notice).rpartition("/")[2]


def _model(route: str) -> Any:
    """Returns the model of a page in the control area."""
    return next(model for model in MODELS if f"/{model._meta.model_name}/" in route)


@pytest.fixture
def world(settings) -> World:
    settings.REQUIRE_STAFF_MFA = True
    settings.TELEGRAM_BOT, settings.TELEGRAM_BOT_TOKEN = "SignalsBot", "123456:token"
    card = factories.a_card()
    desk, other = factories.a_ready_desk(card), factories.a_ready_desk(card)
    bearers = {
        OWN: factories.a_desk_token(desk),
        OTHER: factories.a_desk_token(other),
        READ: factories.a_platform_token("read"),
        WRITE: factories.a_platform_token("write"),
        BOTH: factories.a_platform_token(),
        REVOKED: _ended(lambda token: actions.revoke(token=token, actor=SYSTEM)),
        EXPIRED: _ended(_expire),
    }
    bot = factories.a_bot(desk)
    secrets = {
        BOT: bot.secret,
        FLOOR: factories.a_shared_secret(Source.FLOOR),
        NOX: factories.a_shared_secret(Source.NOX),
    }
    push(bodies.fanout(), bearers[BOTH])
    push(bodies.tradingview(bot), secret=bot.secret)
    browser = functools.partial(staff.a_client, raise_request_exception=False)
    browsers = {
        OWNER: browser(desk.user, "password"),
        CUSTOMER: browser(other.user, "password"),
        STAFF: browser(factories.a_staff_user("a@example.com"), "password"),
        MFA: browser(factories.a_staff_user("b@example.com")),
        LONG_AGO: browser(factories.a_staff_user("c@example.com"), seconds_ago=staff.LONG_AGO),
        OVER: browser(factories.a_staff_user("d@example.com"), opened_ago=staff.TOO_OLD),
    }
    sender = Client(raise_request_exception=False)
    a_webhook()  # the platform's
    a_chat(desk.user)
    return World(desk, bot, a_webhook(desk), bearers, secrets, browsers, sender)


def _ended(end: Any) -> str:
    value, token = actions.mint_platform_token(name="Old", scopes=["read", "write"], actor=SYSTEM)
    end(token)
    return value


def _expire(token: Token) -> None:
    now = timezone.now()
    past = {"created_at": now - timedelta(days=2), "expires_at": now - timedelta(days=1)}
    Token.objects.filter(pk=token.pk).update(**past)


@contextmanager
def undone() -> Iterator[None]:
    """Rolls back the block, so that each request finds the same data."""
    block = transaction.atomic()
    block._from_testcase = True  # type: ignore[attr-defined]  # as the framework's own: the log's turn may begin inside it
    with block:
        yield
        transaction.set_rollback(True)


def outcome(response: Response) -> str:
    if "json" in response.get("Content-Type", "") and response.status_code >= 400:
        return str(response.json()["code"])
    if response.status_code == 302:
        led = re.sub(r"\?.*", "", response["Location"])
        return led if led in (SIGN_IN, CONTROL, PROVE) else IN
    if response.status_code == 405:
        return "method_not_allowed"
    return (pages.problem(response) if response.status_code >= 400 else None) or IN


# --- The matrix ----------------------------------------------------------------------------------

# Each a part of the URL map, so that a test meets one world and ends in seconds.
PARTS = {
    "the API": [route for route in ROWS if route.startswith("api/")],
    "the pages": [route for route in ROWS if not route.startswith(("api/", "control/"))],
    "the control area": [route for route in ROWS if route.startswith("control/")],
}


# On a page tokens and signatures count for nothing: one of each kind tries.
ON_PAGES = (NOBODY, OWN, BOTH, BOT, *SESSIONS, OVER)


@pytest.mark.parametrize("part", PARTS)
def test_what_becomes_of_everybody(world, part):
    otherwise = {}
    for route in PARTS[part]:
        for ask, expected in ROWS[route].items():
            method, _, what = ask.partition(" ")
            for who in EVERYBODY if part == "the API" else ON_PAGES:
                with undone():
                    found = outcome(world.request(who, method, route, what))
                if found != expected[who]:
                    otherwise[route, ask, who] = (found, expected[who])
    assert otherwise == {}


@pytest.mark.parametrize("part", PARTS)
def test_head_is_refused_as_get_is(world, part):
    for route in PARTS[part]:
        for who in (NOBODY, STAFF):
            if "GET" in ROWS[route]:
                head, get = (world.request(who, method, route, "") for method in ("HEAD", "GET"))
                assert head.status_code == get.status_code, (route, who)


def test_the_account_pages_know_a_session_and_nothing_else(world):
    for page in OPEN | SIGNED_IN:
        for who in set(ON_PAGES) - set(SESSIONS):
            response = world.request(who, "GET", address(ACCOUNTS + page)[1:], "")
            assert response.status_code in (200, 302, 410), (page, who)
            led = outcome(response) == SIGN_IN
            assert led or page not in SIGNED_IN, (page, who)

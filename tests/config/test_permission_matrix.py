"""Who may do what: every route of the URL map and every method, by everybody there is.

The routes come from the URL map. One without its row fails, and so does a row without its route; a
method that has no row is refused to everybody.
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
from django.utils import timezone

from desks.models import Automation, Card, Desk, Election, User
from events.actors import SYSTEM
from events.models import Event
from signals.models import Signal
from tests import factories, pages, staff
from tests.client import Response, push, signed, written
from tests.routes import routes
from tests.signals import bodies
from tokens import actions
from tokens.choices import Source
from tokens.models import SigningSecret, Token

pytestmark = [pytest.mark.django_db, pytest.mark.once, pytest.mark.slow]

# --- Everybody there is ---------------------------------------------------------------------------

NOBODY = "nobody"
OWN, OTHER = "the desk's token", "another desk's token"
READ, WRITE, BOTH = "a reading token", "a writing token", "a reading and writing token"
REVOKED, EXPIRED = "a revoked token", "an expired token"
OWNER, CUSTOMER = "the desk's owner", "another customer"
STAFF, MFA = "staff without a second factor", "staff with a second factor"
LONG_AGO = "staff who signed in long ago"
OVER = "staff whose session is too old"
BOT, FLOOR, NOX = "the bot's signature", "the Floor's signature", "the Nox's signature"

PLATFORM = (READ, WRITE, BOTH)
CUSTOMERS = (OWNER, CUSTOMER)
SESSIONS = (*CUSTOMERS, STAFF, MFA, LONG_AGO)
SIGNATURES = (BOT, FLOOR, NOX)
EVERYBODY = (NOBODY, OWN, OTHER, *PLATFORM, REVOKED, EXPIRED, *SESSIONS, OVER, *SIGNATURES)

# --- What becomes of a request --------------------------------------------------------------------

# Let in: whatever the view then makes of it, a form with faults beside it too.
IN = "in"
# Led to the page that asks who one is, to the control area, or to prove again who one is.
SIGN_IN, CONTROL, PROVE = "/accounts/login/", "/control/", "/accounts/reauthenticate/"

Row = dict[str, str]


def row(default: str, *parts: tuple[str | tuple[str, ...], str]) -> Row:
    """The outcome for each caller: the default, except for these."""
    found = dict.fromkeys(EVERYBODY, default)
    for who, outcome in parts:
        found |= dict.fromkeys([who] if isinstance(who, str) else who, outcome)
    return found


# Where only a token counts.
OF_TOKENS = row("credentials_missing", ((REVOKED, EXPIRED), "token_invalid"))
READING = OF_TOKENS | {OWN: IN, OTHER: IN, READ: IN, WRITE: "scope_missing", BOTH: IN}
PULLING = READING | {OWN: "not_allowed", OTHER: "not_allowed"}
PUSHING = PULLING | {READ: "scope_missing", WRITE: IN}
# Where only a session counts.
OF_CUSTOMERS = row(SIGN_IN, (CUSTOMERS, IN), ((STAFF, MFA, LONG_AGO), CONTROL))
OF_THE_OWNER = OF_CUSTOMERS | {CUSTOMER: "not_found"}
OF_STAFF = row(
    SIGN_IN,
    (CUSTOMERS, "not_allowed"),
    (STAFF, "second_factor_required"),
    ((MFA, LONG_AGO), IN),
)
CHANGING = OF_STAFF | {LONG_AGO: "reauthentication_required"}
FORM = {"GET": OF_STAFF | {LONG_AGO: PROVE}, "POST": CHANGING}
NOT_THERE = OF_STAFF | {MFA: "not_found", LONG_AGO: "not_found"}
SIGNING = {
    "POST floor": PUSHING | {BOT: "signature_invalid", FLOOR: IN, NOX: "signature_invalid"},
    "POST nox": PUSHING | {BOT: "signature_invalid", FLOOR: "floor_secret_refused", NOX: IN},
    "POST tradingview": OF_TOKENS
    | dict.fromkeys((OWN, OTHER, *PLATFORM), "signature_missing")
    | {BOT: IN, FLOOR: "signature_invalid", NOX: "signature_invalid"},
}
PUBLIC = row(IN)
# Where both count: without either, and by signature, nobody is calling.
OF_BOTH = OF_TOKENS | {STAFF: "second_factor_required"}
MINTING = row("sign_in_required", ((REVOKED, EXPIRED), "token_invalid"))
REVOKING = OF_BOTH | dict.fromkeys((OWN, OTHER, *PLATFORM, *CUSTOMERS), "not_found")
REVOKING |= {MFA: IN, LONG_AGO: "reauthentication_required"}

ROWS: dict[str, dict[str, Row]] = {
    "api/v1": {"GET": PUBLIC},
    "api/v1/me": {"GET": READING | dict.fromkeys(PLATFORM, "not_allowed")},
    "api/v1/desks": {"GET": PULLING},
    "api/v1/desks/<userId:user_id>": {"GET": PULLING},
    "api/v1/desks/<userId:user_id>/signal": {"POST": PUSHING},
    "api/v1/events": {"GET": READING},
    "api/v1/bots": {"GET": READING | dict.fromkeys(PLATFORM, "not_allowed")},
    "api/v1/signals": {
        "GET of a fan-out": PULLING | {OWN: "invalid", OTHER: "invalid"},
        "GET of the desk's bot": READING | {OTHER: "not_found"},
    },
    "api/v1/signals/<signalId:signal_id>": {"GET": READING | {OTHER: "not_found"}},
    "api/v1/tokens": {
        "GET": OF_BOTH | dict.fromkeys((OWN, OTHER, *PLATFORM, *CUSTOMERS, MFA, LONG_AGO), IN),
        "POST a desk's": MINTING
        | dict.fromkeys(CUSTOMERS, IN)
        | dict.fromkeys((STAFF, MFA, LONG_AGO), "not_allowed"),
        "POST a platform's": MINTING
        | dict.fromkeys(CUSTOMERS, "not_allowed")
        | {STAFF: "second_factor_required", MFA: IN, LONG_AGO: "reauthentication_required"},
        "DELETE itself": REVOKING
        | dict.fromkeys((OWN, OTHER, *PLATFORM), IN)
        | dict.fromkeys((*CUSTOMERS, MFA), "invalid"),
        "DELETE the desk's": REVOKING | {OWN: IN, OWNER: IN},
        "DELETE the reading one": REVOKING | {READ: IN},
    },
    "api/hooks/signal": {"GET": PUBLIC, **SIGNING},
    "api/hooks/check": SIGNING,
    "api/schema": {"GET": PUBLIC},
    "api/docs": {"GET": PUBLIC},
    "": {"GET": PUBLIC},
    "problems": {"GET": PUBLIC},
    "problems/<str:code>": {"GET": PUBLIC},
    "healthz": {"GET": PUBLIC},
    "readyz": {"GET": PUBLIC},
    "metrics": {"GET": row("not_found")},
    "desk": {"GET": OF_CUSTOMERS},
    "activity": {"GET": OF_CUSTOMERS},
    "activity.csv": {"GET": OF_CUSTOMERS},
    "activity/<str:event_id>": {"GET": OF_THE_OWNER},
    "desk/connect": {"GET": OF_CUSTOMERS, "POST": OF_CUSTOMERS},
    "desk/disconnect": {"GET": OF_CUSTOMERS, "POST": OF_CUSTOMERS},
    "desk/enrol": {"GET": OF_CUSTOMERS, "POST": OF_CUSTOMERS},
    "desk/withdraw": {"GET": OF_CUSTOMERS, "POST": OF_CUSTOMERS},
    "desk/token": {"GET": OF_CUSTOMERS, "POST": OF_CUSTOMERS},
    "desk/end": {"GET": OF_CUSTOMERS, "POST": OF_CUSTOMERS},
    "desk/token/revoke": {"GET": OF_CUSTOMERS, "POST": OF_CUSTOMERS},
    "bots": {"GET": OF_CUSTOMERS, "POST": OF_CUSTOMERS},
    "bots/<str:bot_id>": {"GET": OF_THE_OWNER},
    "bots/<str:bot_id>/send": {"GET": OF_THE_OWNER},
    "bots/<str:bot_id>/tradingview": {"GET": OF_THE_OWNER},
    "bots/<str:bot_id>/check": {"GET": OF_THE_OWNER, "POST": OF_THE_OWNER},
    "bots/<str:bot_id>/elect": {"GET": OF_THE_OWNER, "POST": OF_THE_OWNER},
    "bots/<str:bot_id>/withdraw": {"GET": OF_THE_OWNER, "POST": OF_THE_OWNER},
    "bots/<str:bot_id>/secret": {"GET": OF_THE_OWNER, "POST": OF_THE_OWNER},
    "bots/<str:bot_id>/secrets/<str:secret_id>/end": {"GET": OF_THE_OWNER, "POST": OF_THE_OWNER},
    "bots/<str:bot_id>/remove": {"GET": OF_THE_OWNER, "POST": OF_THE_OWNER},
    "accounts/data/": {"GET": OF_CUSTOMERS, "POST": OF_CUSTOMERS},
    "accounts/close/": {"GET": OF_CUSTOMERS, "POST": OF_CUSTOMERS},
    # The control area: the same for all of its pages. Whatever is posted asks for a fresh proof.
    "control/": {"GET": OF_STAFF, "POST": CHANGING},
    "control/jsi18n/": {"GET": OF_STAFF, "POST": CHANGING | {MFA: "method_not_allowed"}},
    "control/^(?P<app_label>events|signals|tokens|desks)/$": {"GET": OF_STAFF, "POST": CHANGING},
    "control/(?P<url>.*)$": {"GET": NOT_THERE, "POST": CHANGING | {MFA: "not_found"}},
}
MODELS = (Automation, Card, Desk, Election, Event, Signal, SigningSecret, Token, User)
ONE = "<path:object_id>"
for model in MODELS:
    place = f"control/{model._meta.app_label}/{model._meta.model_name}"
    ROWS[f"{place}/"] = {"GET": OF_STAFF, "POST": CHANGING}
    # What is there to be read is changed by nobody.
    ROWS[f"{place}/{ONE}/change/"] = {"GET": OF_STAFF, "POST": CHANGING | {MFA: "not_allowed"}}
for page in (
    "desks/card/publish",
    f"desks/card/{ONE}/retire",
    f"desks/user/{ONE}/deactivate",
    "tokens/signingsecret/generate-floor",
    "tokens/signingsecret/generate-nox",
    f"tokens/signingsecret/{ONE}/end",
    "tokens/token/mint",
    f"tokens/token/{ONE}/revoke",
):
    ROWS[f"control/{page}/"] = FORM
# Whom nobody has shut out is not let in again.
ROWS[f"control/desks/user/{ONE}/reactivate/"] = {
    "GET": FORM["GET"] | {MFA: "invalid"},
    "POST": FORM["POST"] | {MFA: "invalid"},
}

# The framework's account pages: those that anybody sees, and those that ask who one is. Tokens and
# signatures count for nothing there. What each does is tested with the accounts.
ACCOUNTS = "accounts/"
OPEN = {
    "login/",
    "logout/",
    "inactive/",
    "signup/",
    "signup/sent/",
    "signup/link/<str:token>/",
    "signup/password/",
    "confirm-email/",
    "^confirm-email/(?P<key>[-:\\w]+)/$",
    "login/code/confirm/",
    "password/reset/",
    "password/reset/done/",
    "password/reset/key/done/",
    "^password/reset/key/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)/$",
    "2fa/authenticate/",
}
SIGNED_IN = {
    "reauthenticate/",
    "email/",
    "preferences/",
    "password/change/",
    "password/set/",
    "2fa/",
    "2fa/reauthenticate/",
    "2fa/totp/activate/",
    "2fa/totp/deactivate/",
    "2fa/recovery-codes/",
    "2fa/recovery-codes/generate/",
    "2fa/recovery-codes/download/",
    "2fa/webauthn/",
    "2fa/webauthn/add/",
    "2fa/webauthn/reauthenticate/",
    "2fa/webauthn/keys/<int:pk>/remove/",
    "2fa/webauthn/keys/<int:pk>/edit/",
    "sessions/",
}

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


# --- The URL map ---------------------------------------------------------------------------------


def test_every_route_has_its_row_and_every_row_its_route():
    assert sorted(routes()) == sorted(
        [*ROWS, *(ACCOUNTS + page for page in OPEN), *(ACCOUNTS + page for page in SIGNED_IN)]
    )


def test_every_row_says_what_becomes_of_everybody():
    for rows in ROWS.values():
        for outcomes in rows.values():
            assert set(outcomes) == set(EVERYBODY)


# --- The world -----------------------------------------------------------------------------------


@dataclass
class World:
    """One object of each kind, every caller's credential, and the object of each path."""

    desk: Desk
    bot: factories.Bot
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
            "<str:code>": lambda: "malformed",
            "^(?P<app_label>events|signals|tokens|desks)/$": lambda: "tokens/",
            "(?P<url>.*)$": lambda: "no/such/page/",
            ONE: lambda: str(quote(_model(route).objects.order_by("pk").first().pk)),
        }
        address = route
        for part, value in named.items():
            if part in route:
                address = address.replace(part, value())
        return f"/{address}"

    def request(self, who: str, method: str, route: str, what: str) -> Response:
        """A request of somebody's: lawful, where it is let in."""
        path, body = self.path(route), self.body(route, what)
        if what in ("the desk's", "the reading one"):
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
        return browser.generic(method, path, raw, kind, headers=headers)

    def body(self, route: str, what: str) -> dict[str, Any] | None:
        if route.endswith("/signal") and route.startswith("api/v1"):
            return bodies.deploy()
        made = {
            "floor": lambda: bodies.floor(self.desk),
            "nox": bodies.nox,
            "tradingview": lambda: bodies.tradingview(self.bot),
            "a desk's": lambda: {"scope": "desk"},
            "a platform's": lambda: {"scope": "platform", "name": "x", "scopes": ["read"]},
        }
        return made[what]() if what in made else None

    def _token(self, who: str) -> Token:
        return Token.objects.get(hint__endswith=self.bearers[who][-4:])


def _model(route: str) -> Any:
    """Returns the model of a page in the control area."""
    return next(model for model in MODELS if f"/{model._meta.model_name}/" in route)


@pytest.fixture
def world(settings) -> World:
    settings.REQUIRE_STAFF_MFA = True
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
    return World(desk, bot, bearers, secrets, browsers, sender)


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


@pytest.mark.parametrize("part", PARTS)
def test_what_becomes_of_everybody(world, part):
    otherwise = {}
    for route in PARTS[part]:
        for ask, expected in ROWS[route].items():
            method, _, what = ask.partition(" ")
            for who in EVERYBODY:
                with undone():
                    found = outcome(world.request(who, method, route, what))
                if found != expected[who]:
                    otherwise[route, ask, who] = (found, expected[who])
    assert otherwise == {}


@pytest.mark.parametrize("part", PARTS)
def test_the_other_methods_are_refused_to_everybody_and_options_says_which_there_are(world, part):
    for route in PARTS[part]:
        known = {ask.partition(" ")[0] for ask in ROWS[route]}
        for who in EVERYBODY:
            asked = world.request(who, "OPTIONS", route, "")
            assert asked.status_code == 204, (route, who)
            assert set(asked["Allow"].split(", ")) - {"HEAD", "OPTIONS"} == known
            for method in set(METHODS) - known:
                refused = world.request(who, method, route, "")
                assert outcome(refused) == "method_not_allowed", (route, method, who)
                assert refused["Allow"] == asked["Allow"]


@pytest.mark.parametrize("part", PARTS)
def test_head_is_let_in_as_get_is(world, part):
    for route in PARTS[part]:
        for who in (NOBODY, OWN, BOTH, OWNER, MFA):
            if "GET" in ROWS[route]:
                head, get = (world.request(who, method, route, "") for method in ("HEAD", "GET"))
                assert head.status_code == get.status_code, (route, who)


def test_the_account_pages_know_a_session_and_nothing_else(world):
    for page in OPEN | SIGNED_IN:
        address = re.sub(r"\(\?P<[^>]*>.*?\)|<int:pk>", "1", page.strip("^$"))
        for who in set(EVERYBODY) - set(SESSIONS):
            response = world.request(who, "GET", ACCOUNTS + address, "")
            assert response.status_code in (200, 302, 410), (page, who)
            led = outcome(response) == SIGN_IN
            assert led or page not in SIGNED_IN, (page, who)

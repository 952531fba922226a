"""The order of the checks, on every route of the API (contract, section 5).

For each operation there is a request that is accepted, and one fault for each check in the
contract's order. All faults at once are sent; what is told is mended, and it is sent again: the
refusals come in the contract's order, until the request is accepted.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import resolve
from django.utils import timezone

from config.middleware import methods_of
from desks import actions as desks
from desks.models import Desk
from events.actors import SYSTEM
from events.http import rate_limits
from events.models import Event
from events.times import to_rfc3339
from signals.intake.models import Signal
from tests import factories
from tests.client import (
    BOTS,
    DESKS,
    EVENTS,
    JSON,
    ME,
    SIGNALS,
    SUBSCRIPTIONS,
    TOKENS,
    bearer,
    deploy_path,
    push,
    signed,
    written,
)
from tests.client import code as code_of
from tests.client import signed_in as browser_of
from tests.factories import Bot
from tests.routes import address, routes
from tests.signals import bodies
from tests.signals.webhooks.stage import an_active_webhook, cursor_at
from tokens import actions
from tokens.crypto import formats
from tokens.models import SigningSecret, Token

pytestmark = [pytest.mark.django_db, pytest.mark.once]

SPENT = "spent"
WEBHOOK = "api/v1/subscriptions/<subscriptionId:subscription_id>"
TOO_LARGE = str(64 * 1024 + 1)
CSRF = "x" * 32


@dataclass
class Ask:
    """A request that is being built."""

    method: str
    path: str
    body: Any = None
    token: str | None = None
    secret: str | None = None
    at: int | None = None
    content_type: str = JSON
    query: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    environ: dict[str, Any] = field(default_factory=dict)


@dataclass
class World:
    """The callers, and the objects of their requests."""

    desk: Desk
    idle: Desk
    own: str
    own_id: str
    engine: str
    reader: str
    writer: str
    revoked: str
    floor: str
    bot: Bot
    silent: Bot  # a bot without an election
    browser: Client
    webhook: str
    cursor: str
    event: str
    signal: str
    settings: Any

    def send(self, ask: Ask) -> Any:
        raw = b"" if ask.body is None else written(ask.body)
        presented = bearer(ask.token) if ask.token else {}
        if ask.secret:
            presented |= signed(ask.secret, body=raw, at=ask.at)
        return self.browser.generic(
            ask.method,
            ask.path + ask.query,
            raw,
            ask.content_type,
            headers={**presented, **ask.headers},
            **ask.environ,
        )


@pytest.fixture
def world(settings, card) -> World:
    desk, engine = factories.a_ready_desk(card), factories.a_platform_token()
    revoked, token = actions.mint_platform_token(name="Old", scopes=["read"], actor=SYSTEM)
    actions.revoke(token=token, actor=SYSTEM)
    bot, silent = factories.a_bot(desk), factories.a_bot(desk)
    for one in (bot, silent):
        push(bodies.tradingview(one, nonce=SPENT), secret=one.secret)
        factories.expect(one, max_age=timedelta(hours=1))
    desks.withdraw(desk=silent.automation.desk, automation=silent.automation, actor=SYSTEM)
    push(bodies.fanout(nonce=SPENT), engine)
    webhook = an_active_webhook(desk)
    browser = browser_of(desk.user, "password", csrf=True)
    browser.cookies[settings.CSRF_COOKIE_NAME] = CSRF
    made = World(
        desk=desk,
        idle=factories.a_desk(),
        own=factories.a_desk_token(desk),
        own_id=Token.objects.get(desk=desk).public_id,
        engine=engine,
        reader=factories.a_platform_token("read"),
        writer=factories.a_platform_token("write"),
        revoked=revoked,
        floor=factories.a_shared_secret(),
        bot=bot,
        silent=silent,
        browser=browser,
        webhook=webhook.public_id,
        cursor=cursor_at(webhook.cursor_position),
        event=Event.objects.filter(topic=desk.public_id).latest("position").id,
        signal=Signal.objects.first().public_id,
        settings=settings,
    )
    _spend_everything(made)
    return made


def _spend_everything(world: World) -> None:
    """Sets a limit of one and uses it up."""
    _limited(Ask("", ""), world)
    credentials = [*Token.objects.all(), *SigningSecret.objects.all()]
    for name in ("platform", "reads"):
        for credential in credentials:
            rate_limits.consume(name, credential.public_id)
    for name in ("minting", "destinations", "changes", "rewinds"):
        rate_limits.consume(name, str(world.desk.user.pk))
    rate_limits.consume("automation", world.bot.id)
    rate_limits.consume("automation", world.silent.id)


# --- The faults ----------------------------------------------------------------------------------

Spoil = Callable[[Ask, World], Any]
Fault = tuple[str, Spoil]


def _limited(ask: Ask, world: World) -> None:
    users = ("minting", "destinations", "changes", "rewinds")
    few = dict.fromkeys(("platform", "reads", "automation", *users), "1/hour")
    world.settings.LIMITS = {**world.settings.LIMITS, **few}


def _nowhere(ask: Ask, world: World) -> None:
    ask.path = ask.path.replace("/api/", "/api/nowhere/")


def sets(**values: Any) -> Spoil:
    """Returns a change that sets values, or adds members to headers, environ and body."""

    def spoil(ask: Ask, world: World) -> None:
        for name, value in values.items():
            known = getattr(ask, name)
            whole = isinstance(known, dict) and isinstance(value, dict)
            setattr(ask, name, {**known, **value} if whole else value)

    return spoil


FIRST: list[Fault] = [
    ("host_invalid", sets(headers={"Host": "elsewhere.example"})),
    ("https_required", lambda ask, world: setattr(world.settings, "REQUIRE_HTTPS", True)),
    ("not_found", _nowhere),
    ("method_not_allowed", sets(method="PROPFIND")),
    ("length_required", sets(headers={"Transfer-Encoding": "chunked"})),
    ("body_too_large", sets(environ={"CONTENT_LENGTH": TOO_LARGE})),
]
FORM: Fault = ("token_invalid", sets(headers={"Authorization": "Basic x"}))
REVOKED: Fault = ("token_invalid", lambda ask, world: setattr(ask, "token", world.revoked))
OF_DESK: Fault = ("not_allowed", lambda ask, world: setattr(ask, "token", world.own))
OF_PLATFORM: Fault = ("not_allowed", lambda ask, world: setattr(ask, "token", world.engine))
ONLY_READS: Fault = ("scope_missing", lambda ask, world: setattr(ask, "token", world.reader))
ONLY_WRITES: Fault = ("scope_missing", lambda ask, world: setattr(ask, "token", world.writer))
LIMITED: Fault = ("rate_limited", _limited)
MEDIA_TYPE: Fault = ("unsupported_media_type", sets(content_type="text/plain"))
MALFORMED: Fault = ("malformed", sets(body=b"{"))
SECRET: Fault = ("exchange_secret", sets(body={"api_key": "x"}))
QUERY: Fault = ("invalid", sets(query="?limit=x"))
TOKEN = [*FIRST, FORM, REVOKED]

SIGNED = [
    *FIRST,
    FORM,
    ("timestamp_invalid", sets(at=1_000_000_000)),
    REVOKED,
    MALFORMED,
    ("signature_invalid", sets(body={"source": "other"})),
    ("signature_invalid", sets(secret=formats.new(formats.SIGNING_SECRET))),
    LIMITED,
]
LAW: list[Fault] = [
    SECRET,
    ("ticker_only", sets(body={"ticker": "BTCUSDT", "direction": None})),
    ("mode_refused", sets(body={"mode": "live"})),
    ("not_elected", sets(body={"elected": False})),
    ("invalid", sets(body={"nonce": ""})),
]
USED: Fault = ("nonce_used", sets(body={"nonce": SPENT}))
OTHERWISE: list[Fault] = [
    ("pair_mismatch", sets(body={"pair": "NOT/IT"})),
    ("direction_mismatch", sets(body={"direction": "short"})),
]


def in_body(desk: Callable[[World], str]) -> Spoil:
    return lambda ask, world: ask.body.update(userId=desk(world))


def in_path(desk: Callable[[World], str]) -> Spoil:
    return lambda ask, world: setattr(ask, "path", deploy_path(desk(world)))


def nobody(world: World) -> str:
    return "usr_" + "0" * 22


def idle(world: World) -> str:
    return world.idle.public_id


def to_desk(name: Callable[[Callable[[World], str]], Spoil]) -> list[Fault]:
    """The checks of a desk that a signal names."""
    return [("not_found", name(nobody)), USED, ("desk_not_ready", name(idle)), *OTHERWISE]


def _by_silent_bot(ask: Ask, world: World) -> None:
    ask.body["botId"], ask.secret = world.silent.id, world.silent.secret


# --- The operations ------------------------------------------------------------------------------

BOT_OTHERWISE = [OTHERWISE[0], ("direction_mismatch", sets(body={"direction": "long"}))]

# What the hook and its check ask of each sender, and the faults in the contract's order.
BY_SENDER: dict[str, list[Fault]] = {
    "token": [
        *TOKEN,
        MALFORMED,
        ("signature_missing", sets(body={"source": "tradingview"})),
        OF_DESK,
        ONLY_READS,
        LIMITED,
        *LAW,
        *to_desk(in_body),
    ],
    "the Floor's signature": [*SIGNED, *LAW, *to_desk(in_body)],
    "a bot": [
        *SIGNED,
        *LAW,
        USED,
        ("signal_too_old", sets(body={"sentAt": "2026-01-01T00:00:00Z"})),
        ("no_election", _by_silent_bot),
        *BOT_OTHERWISE,
    ],
}


def _hook_ask(path: str, who: str, world: World) -> Ask:
    if who == "a bot":
        body = bodies.tradingview(world.bot, sentAt=to_rfc3339(timezone.now()))
        return Ask("POST", path, body, secret=world.bot.secret)
    by_token = who == "token"
    return Ask(
        "POST",
        path,
        bodies.floor(world.desk),
        token=world.engine if by_token else None,
        secret=None if by_token else world.floor,
    )


# The checks of a change by session: the faults of its body, and of the id in its path.
BY_SESSION: list[Fault] = [
    *TOKEN,
    ("sign_in_required", lambda ask, world: setattr(ask, "token", world.engine)),
    ("csrf_failed", sets(headers={"X-CSRFToken": "y"})),
]
BODY: list[Fault] = [MEDIA_TYPE, MALFORMED, SECRET, ("invalid", sets(body={"other": "x"}))]
NO_WEBHOOK: Fault = (
    "not_found",
    lambda ask, world: setattr(ask, "path", ask.path.replace(world.webhook, f"sub_{'0' * 22}")),
)


Make = Callable[[World], Ask]


def read(path: str, token: str, query: str = "") -> Make:
    """A request with a token of the world, whose other parts the path and the query may name."""
    return lambda world: Ask(
        "GET",
        path.format(**vars(world)),
        token=getattr(world, token),
        query=query.format(**vars(world)),
    )


def change(method: str, path: str, body: Callable[[World], dict[str, Any]]) -> Make:
    """A request by session."""
    csrf = {"X-CSRFToken": CSRF}
    return lambda world: Ask(method, path.format(**vars(world)), body(world), headers=csrf)


ONE_WEBHOOK = f"{SUBSCRIPTIONS}/{{webhook}}"
ACTS: dict[str, Callable[[World], dict[str, Any]]] = {
    "secret": lambda world: {},
    "test": lambda world: {},
    "rewind": lambda world: {"after": world.cursor},
    "resend": lambda world: {"event": world.event},
    "skip": lambda world: {"events": "all"},
}


# What is accepted, and the faults in the contract's order. Method and route come first in a name.
OPERATIONS: dict[str, tuple[Make, list[Fault]]] = {
    "GET api/v1/me": (read(ME, "own"), [*TOKEN, OF_PLATFORM, LIMITED]),
    "GET api/v1/desks": (read(DESKS, "engine"), [*TOKEN, OF_DESK, ONLY_WRITES, QUERY]),
    "GET api/v1/desks/<userId:user_id>": (
        read(f"{DESKS}/{{desk.public_id}}", "engine"),
        [*TOKEN, OF_DESK, ONLY_WRITES, ("not_found", sets(path=f"{DESKS}/usr_{'0' * 22}"))],
    ),
    "GET api/v1/events by a desk": (read(EVENTS, "own"), [*TOKEN, LIMITED, QUERY]),
    "GET api/v1/events by the engine": (read(EVENTS, "engine"), [*TOKEN, ONLY_WRITES, QUERY]),
    "GET api/v1/bots": (read(BOTS, "own"), [*TOKEN, OF_PLATFORM, LIMITED, QUERY]),
    "GET api/v1/signals by the engine": (
        read(SIGNALS, "engine", f"?nonce={SPENT}&source=floor"),
        [
            *TOKEN,
            ONLY_WRITES,
            ("invalid", sets(query=f"?nonce={SPENT}")),
            ("not_found", sets(query="?nonce=never&source=floor")),
        ],
    ),
    "GET api/v1/signals by a desk": (
        read(SIGNALS, "own", f"?nonce={SPENT}&botId={{bot.id}}"),
        [
            *TOKEN,
            LIMITED,
            ("invalid", sets(query=f"?nonce={SPENT}&source=floor")),
            ("not_found", sets(query=f"?nonce={SPENT}&botId=bot_x")),
        ],
    ),
    "GET api/v1/signals/<signalId:signal_id>": (
        read(f"{SIGNALS}/{{signal}}", "engine"),
        [*TOKEN, ONLY_WRITES, ("not_found", sets(path=f"{SIGNALS}/sig_{'0' * 22}"))],
    ),
    "POST api/v1/desks/<userId:user_id>/signal": (
        lambda world: Ask(
            "POST", deploy_path(world.desk.public_id), bodies.deploy(), token=world.engine
        ),
        [*TOKEN, OF_DESK, ONLY_READS, LIMITED, MEDIA_TYPE, MALFORMED, *LAW, *to_desk(in_path)],
    ),
    **{
        f"POST {route} by {who}": (functools.partial(_hook_ask, f"/{route}", who), faults)
        for route in ("api/hooks/signal", "api/hooks/check")
        for who, faults in BY_SENDER.items()
    },
    "GET api/v1/tokens": (read(TOKENS, "own"), [*TOKEN, LIMITED, QUERY]),
    "POST api/v1/tokens": (
        change("POST", TOKENS, lambda world: {"scope": "desk"}),
        [*BY_SESSION, LIMITED, *BODY],
    ),
    "DELETE api/v1/tokens": (
        lambda world: Ask("DELETE", TOKENS, {"id": world.own_id}, token=world.own),
        [*TOKEN, *BODY, ("not_found", sets(body={"id": "tok_x"}))],
    ),
    "GET api/v1/subscriptions": (read(SUBSCRIPTIONS, "own"), [*TOKEN, LIMITED, QUERY]),
    "POST api/v1/subscriptions": (
        change("POST", SUBSCRIPTIONS, lambda world: {"url": "https://h.example"}),
        [*BY_SESSION, LIMITED, *BODY],
    ),
    f"GET {WEBHOOK}": (read(ONE_WEBHOOK, "own"), [*TOKEN, LIMITED, NO_WEBHOOK]),
    f"PATCH {WEBHOOK}": (
        change("PATCH", ONE_WEBHOOK, lambda world: {"paused": True}),
        [*BY_SESSION, LIMITED, *BODY, NO_WEBHOOK],
    ),
    f"DELETE {WEBHOOK}": (
        change("DELETE", ONE_WEBHOOK, lambda world: {}),
        [*BY_SESSION, NO_WEBHOOK],
    ),
    **{
        f"POST {WEBHOOK}/{act}": (
            change("POST", f"{ONE_WEBHOOK}/{act}", body),
            [*BY_SESSION, LIMITED, *BODY, NO_WEBHOOK],
        )
        for act, body in ACTS.items()
    },
    f"GET {WEBHOOK}/attempts": (
        read(f"{ONE_WEBHOOK}/attempts", "own"),
        [*TOKEN, LIMITED, QUERY, NO_WEBHOOK],
    ),
    **{
        f"GET {path}": (lambda world, path=path: Ask("GET", f"/{path}"), FIRST)
        for path in ("api/v1", "api/hooks/signal", "api/schema", "api/docs")
    },
}


def test_every_route_of_the_api_has_its_operations():
    expected = {
        f"{method} {route}"
        for route in routes()
        if route.startswith("api/")
        for method in {*methods_of(resolve(address(route)).func)} - {"HEAD", "OPTIONS"}
    }
    assert {" ".join(name.split()[:2]) for name in OPERATIONS} == expected


@pytest.mark.parametrize("name", OPERATIONS)
def test_of_several_faults_the_first_of_the_contracts_order_is_told(world, name):
    make, faults = OPERATIONS[name]
    unlimited = {**world.settings.LIMITS, **dict.fromkeys(world.settings.LIMITS, "off")}
    for mended in range(len(faults) + 1):
        world.settings.LIMITS, world.settings.REQUIRE_HTTPS = unlimited, False
        ask = make(world)
        for _, spoil in reversed(faults[mended:]):
            spoil(ask, world)
        expected = faults[mended][0] if mended < len(faults) else "ok"
        assert code_of(world.send(ask)) == expected, [expected for expected, _ in faults[mended:]]

"""No response reveals whether another customer has a desk, bot, token, secret or signal.

Each request is made twice: with the id of what another customer has, and with one of the same form
that nobody has. The two answers are the same but for that id and for what is new in each answer.
"""

import re
from dataclasses import dataclass
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.test import Client

from desks.ids import random_base62
from desks.models import Desk
from events.models import Event
from signals.intake.models import Signal
from tests import factories, staff
from tests.client import DESKS, EVENTS, HOOK, SIGNALS, TOKENS, Response, bearer, signed, written
from tests.config.permissions import ACCOUNTS, ROWS, SIGNED_IN
from tests.signals import bodies
from tests.signals.notices.chats.stage import a_chat
from tests.signals.webhooks.stage import a_webhook
from tokens.models import SigningSecret, Token

pytestmark = [pytest.mark.django_db, pytest.mark.slow, pytest.mark.once]

SPENT = "spent"  # the nonce of the signal
NEW_EACH_TIME = [
    re.compile(r'name="csrfmiddlewaretoken" value="[^"]+"'),
    re.compile(r'"requestId": ?"[^"]+"'),
    re.compile(r"name the request: *<code>[^<]+</code>"),
    re.compile(r"[0-9a-f]{32}"),  # the request's id
]


@dataclass
class Cast:
    """Another customer's objects by kind, and a customer who looks for them."""

    theirs: dict[str, str]
    own_bot: factories.Bot
    desk_token: str
    browser: Client

    def made_up(self, kind: str) -> str:
        """Returns an id of the same form that does not exist."""
        if kind == "key":
            return str(int(self.theirs["key"]) + 1000)
        if kind == "event":
            return "evt_7000001"
        prefix, _, rest = self.theirs[kind].partition("_")
        return f"{prefix}_{random_base62(len(rest))}"


@pytest.fixture
def cast(settings: Any, desk: Desk, stranger: Desk) -> Cast:
    """``desk`` has one object of each kind, and ``stranger`` looks for them, without a limit."""
    settings.LIMITS = dict.fromkeys(settings.LIMITS, "off")
    bot = factories.a_bot(desk)
    factories.a_desk_token(desk)
    # Its id is of so many digits that it stands in no page by chance.
    key = Authenticator.objects.create(
        pk=7_000_001, user=desk.user, type="webauthn", data={"name": "Key"}
    )
    body = written(bodies.tradingview(bot, nonce=SPENT))
    Client().generic("POST", HOOK, body, headers=signed(bot.secret, body=body))
    theirs = {
        "user": desk.public_id,
        "bot": bot.id,
        "secret": SigningSecret.objects.get(automation=bot.id).public_id,
        "token": Token.objects.get(desk=desk).public_id,
        "signal": Signal.objects.get().public_id,
        "event": Event.objects.get(kind="signal.filled").id,
        "key": str(key.pk),
        "webhook": a_webhook(desk).public_id,
        "chat": a_chat(desk.user).public_id,
    }
    return Cast(
        theirs,
        factories.a_bot(stranger),
        factories.a_desk_token(stranger),
        staff.a_client(stranger.user, "password", raise_request_exception=False),
    )


def seen(response: Response, asked_for: str) -> tuple[int, str, dict[str, str]]:
    """Returns a response without the parts of its request and the parts that always differ."""
    body = response.content.decode().replace(asked_for, "the id")
    for form in NEW_EACH_TIME:
        body = form.sub("", body)
    headers = {
        name: value.replace(asked_for, "the id")
        for name, value in response.items()
        if name != "X-Request-Id"
    }
    return response.status_code, body, headers


def by_everybody(cast: Cast, method: str, path: str, raw: bytes = b"") -> dict[str, Response]:
    """The answers to nobody, to a desk's token, to a customer's session, and to a bot."""
    nobody = Client(raise_request_exception=False)
    kind = "application/json" if path.startswith("/api/") else "application/x-www-form-urlencoded"
    signatures = signed(cast.own_bot.secret, body=raw)
    return {
        "nobody": nobody.generic(method, path, raw, kind),
        "a desk's token": nobody.generic(method, path, raw, kind, headers=bearer(cast.desk_token)),
        "a customer": cast.browser.generic(method, path, raw, kind),
        "a bot": nobody.generic(method, path, raw, kind, headers=signatures),
    }


def assert_alike(cast: Cast, kind: str, method: str, path: str, body: Any = None) -> None:
    """``{id}`` marks the id in the path and the body."""
    found = {}
    for each in (cast.theirs[kind], cast.made_up(kind)):
        raw = b"" if body is None else written(_with(body, each))
        answers = by_everybody(cast, method, path.replace("{id}", each), raw)
        found[each] = {who: seen(answer, each) for who, answer in answers.items()}
    theirs, nobodys = found.values()
    assert theirs == nobodys, (method, path)


def _with(value: Any, each: str) -> Any:
    if isinstance(value, dict):
        return {name: _with(inner, each) for name, inner in value.items()}
    return each if value == "{id}" else value


# --- Every route with an id in its path ----------------------------------------------------------

IN_PATHS = {
    "<userId:user_id>": "user",
    "<str:bot_id>": "bot",
    "<str:secret_id>": "secret",
    "<int:pk>": "key",
    "<path:object_id>": "user",
    "<str:event_id>": "event",
    "<signalId:signal_id>": "signal",
    "<subscriptionId:subscription_id>": "webhook",
    "<str:webhook_id>": "webhook",
    "<str:chat_id>": "chat",
}
ROUTES = [*ROWS, *(ACCOUNTS + page for page in SIGNED_IN)]


@pytest.mark.parametrize("part", IN_PATHS)
def test_a_path_tells_nobody_what_others_have(cast, part):
    for route in (route for route in ROUTES if part in route):
        path = "/" + route.replace(part, "{id}")
        for other, kind in IN_PATHS.items():
            own_bot = kind == "bot" and part == "<str:secret_id>"
            path = path.replace(other, cast.own_bot.id if own_bot else cast.theirs[kind])
        for method in ("GET", "POST", "DELETE"):
            body = bodies.deploy() if path.startswith("/api/") and method == "POST" else None
            assert_alike(cast, IN_PATHS[part], method, path, body)


def test_no_kind_of_id_is_forgotten():
    parts = {part for route in ROWS for part in re.findall(r"<[a-zA-Z]+:[a-z_]+>", route)}
    # The page of a refusal is the same for all. The link in a notice is signed for its reader.
    assert parts - set(IN_PATHS) == {"<str:code>", "<str:token>"}


# --- Every id in a query or a body ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "method", "path"),
    [
        ("token", "DELETE", f"{TOKENS}?id={{id}}"),
        ("user", "GET", f"{EVENTS}?userId={{id}}"),
        ("signal", "GET", f"{EVENTS}?signal={{id}}"),
        ("signal", "GET", f"{EVENTS}?signal={{id}}&order=desc&limit=1"),
        ("signal", "GET", f"{DESKS}?signal={{id}}"),
        ("bot", "GET", f"{EVENTS}?botId={{id}}"),
        ("bot", "GET", f"{SIGNALS}?nonce={SPENT}&botId={{id}}"),
        ("bot", "GET", "/activity?bot={id}"),
        ("bot", "GET", "/activity.csv?bot={id}"),
        ("bot", "GET", "/control/desks/automation/?q={id}"),
    ],
)
def test_a_query_tells_nobody_what_others_have(cast, kind, method, path):
    assert_alike(cast, kind, method, path)


@pytest.mark.parametrize(
    ("kind", "method", "path", "body"),
    [
        ("token", "DELETE", TOKENS, {"id": "{id}"}),
        ("bot", "POST", HOOK, {**bodies.fanout(), "source": "tradingview", "botId": "{id}"}),
        ("bot", "POST", HOOK, {"ticker": "BTCUSDT", "source": "tradingview", "botId": "{id}"}),
        ("user", "POST", HOOK, {**bodies.deploy(), "userId": "{id}"}),
        ("user", "POST", HOOK, {**bodies.nox(), "userId": "{id}"}),
    ],
)
def test_a_body_tells_nobody_what_others_have(cast, kind, method, path, body):
    assert_alike(cast, kind, method, path, body)


def test_what_one_looks_for_in_vain_is_no_event_of_ones_own(cast, stranger):
    own = Event.objects.filter(topic=stranger.public_id)
    before = own.count()
    assert_alike(cast, "bot", "POST", HOOK, {**bodies.fanout(), "botId": "{id}"})
    assert own.count() == before

"""Random histories of the whole service, against the model in ``service.py``.

Each step is a request or an action. The service must answer exactly what the model answers, and
write exactly the model's events. Every reader sees its own events, each once and in order, from
whichever cursor it kept. At the end the audit must find nothing.

``MODEL_HISTORIES`` sets the number of histories. Then they differ from run to run, and one that
fails is made as short as possible.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any
from urllib.parse import urlencode

import pytest
import time_machine
from django.core.management import call_command
from django.db import transaction
from django.test import Client
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from desks import actions as desks
from desks.expectations import change_automation
from desks.models import Automation, Desk
from events.http.refusals import Refused
from tests.client import (
    CHECK,
    DESKS,
    EVENTS,
    HOOK,
    ME,
    SIGNALS,
    TOKENS,
    Response,
    bearer,
    code,
    deploy_path,
    get,
    post,
    signed,
    signed_in,
    written,
)
from tests.factories import UserFactory, a_staff_user
from tests.model import service
from tests.model.service import Json, Refusal, Request, Service
from tests.signals.audit.stage import audited
from tokens import account_closing
from tokens import actions as tokens
from tokens.account_closing import close_account
from tokens.callers import credential_cache
from tokens.choices import Source
from tokens.crypto import formats
from tokens.models import SigningSecret

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

HISTORIES = int(os.environ.get("MODEL_HISTORIES", "0"))  # make drills: more
IN_CI = 25
STEPS = 40
START = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
MAX_DESKS, MAX_BOTS = 4, 3  # more would need longer histories to be busy

PAIRS, DIRECTIONS = ["BTC/USDT", "ETH/USDT"], ["long", "short"]
OVERLAPS = [timedelta(0), timedelta(0), timedelta(minutes=1), timedelta(hours=1)]
LIVES = [None, timedelta(0), timedelta(seconds=30), timedelta(hours=1)]
NO_TOKEN = formats.new(formats.PLATFORM_TOKEN)  # of the right form, never minted
MOMENT = timedelta(milliseconds=1)

some = st.integers(0, 11)  # chooses among what there is
pairs, directions = st.sampled_from(PAIRS), st.sampled_from(DIRECTIONS)
limits = st.integers(1, 5)

# What is wrong with a signal. Each changes a body that would be accepted.
FAULTS: dict[str, Callable[[Json], object]] = {
    "another pair": lambda body: body.update(pair=_other(PAIRS, body["pair"])),
    "another direction": lambda body: body.update(direction=_other(DIRECTIONS, body["direction"])),
    "a ticker": lambda body: (body.pop("pair"), body.update(ticker="BTCUSDT")),
    "a ticker as the pair": lambda body: body.update(pair="BTCUSDT"),
    "not elected": lambda body: body.update(elected="true"),
    "armed": lambda body: body.update(mode="armed"),
    "an exchange's secret": lambda body: body.update(apiKey="x"),
    "no direction": lambda body: body.pop("direction"),
    "no nonce": lambda body: (body.pop("nonce", None), body.pop("action_id", None)),
    "something more": lambda body: body.update(strategy="trend"),
}
SIGNALS_SENT = st.fixed_dictionaries(
    {
        "shape": st.sampled_from(
            ["bot", "bot", "bot", "fan-out", "fan-out", "deploy", "deploy", "desk", "nox"]
        ),
        "target": some,
        "nonce": st.none() | st.none() | some,  # a new one, or one that was sent before
        "faults": st.just([]) | st.just([]) | st.lists(st.sampled_from(list(FAULTS)), max_size=2),
        "credential": st.sampled_from(
            ["own"] * 6 + ["another secret", "another token", "both", "wrong", "none"]
        ),
        "which": some,
        "clock": st.sampled_from([0, 0, 0, 0, -300, 300, -301, 301]),
        "age": st.sampled_from([None, -60_000, 0, 60_000, 60_001, 600_000]),  # milliseconds
        "mode": st.sampled_from(["paper", "paper", "draft", "dry_run"]),  # of Nox
        "fanout": st.booleans(),
        "size": st.sampled_from([None, 25, 12.5]),
    }
)


def _other(choices: list[str], one: str | None) -> str:
    return next(each for each in choices if each != one)


class NotMade:
    """What an action made that was refused. Only the model's refusal can keep it from use."""

    def __getattr__(self, name: str) -> str:
        return "not made"


class Histories(RuleBasedStateMachine):
    """The service and the model, side by side. All times are those of a clock that stands still."""

    def __init__(self) -> None:
        super().__init__()
        self.before = transaction.savepoint()
        forget_what_is_cached()
        self.clock = time_machine.travel(START, tick=False)
        self.coordinates = self.clock.start()
        self.model = Service(START)
        self.rows: dict[str, Desk] = {}
        self.requests: list[tuple[str, Request]] = []  # the path and what was sent
        self.number = 0
        self.epoch = 0
        self.observed: str | None = None  # the cursor of the token that reads after each step
        self.cursors: list[tuple[str | None, int, int]] = [(None, 0, 0)]  # with position and epoch
        self.copy: dict[str, Json] = {}  # the desks, as an engine keeps them
        self.copy_query: Json = {}
        self.checked = 0  # how many events that token has read

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:  # no step has failed
                self.check_the_end()
        finally:
            self.clock.stop()
            transaction.savepoint_rollback(self.before)

    # --- What the steps use -----------------------------------------------------------------------

    def act(self, in_service: Callable[[], Any], in_model: Callable[[Any], None]) -> None:
        """Does the same in both. Both accept it, or refuse it with one code."""
        made, said, meant = NotMade(), "ok", "ok"
        try:
            made = in_service()
        except Refused as refusal:
            said = refusal.code
        try:
            in_model(made)
        except Refusal as refusal:
            meant = refusal.code
        assert said == meant

    def a_number(self) -> int:
        self.number += 1
        return self.number

    def desk(self, which: int) -> service.Desk:
        return self.model.desks[which % len(self.model.desks)]

    def row(self, desk: service.Desk) -> Desk:
        return self.rows[desk.user_id]

    def bot(self, which: int) -> service.Bot:
        return self.model.bots[which % len(self.model.bots)]

    def bot_row(self, bot: service.Bot) -> Automation:
        return Automation.objects.select_related("desk").get(pk=bot.id)

    def secret(self, which: int) -> service.Secret:
        return self.model.secrets[which % len(self.model.secrets)]

    def token(self, which: int) -> str:
        """A token that was ever minted, or one that was not. The last ones are chosen more."""
        values = [NO_TOKEN, *(token.value for token in self.model.tokens)]
        return values[-1 - which % len(values)]

    def get(self, path: str, token: str | None, **query: Any) -> Response:
        given = {name: value for name, value in query.items() if value is not None}
        return get(f"{path}?{urlencode(given, doseq=True)}" if given else path, token)

    def expect(self, answer: Response, allowed: Callable[[], Any]) -> Any:
        """What the model allows. None if it refuses, which the service must have done, too."""
        may, meant = None, (200, "ok")
        try:
            may = allowed()
        except Refusal as refusal:
            meant = refusal.status, refusal.code
        assert (answer.status_code, code(answer)) == meant
        return may

    # --- Desks and cards --------------------------------------------------------------------------

    @initialize(pair=pairs, direction=directions)
    def begin(self, pair: str, direction: str) -> None:
        """Three desks, two of which are ready, a bot, an engine, and who reads after each step."""
        self.staff = a_staff_user()
        for scopes in (["read"], ["read", "write"]):
            self.mint_for_the_platform(scopes, None)
        self.observer = self.model.tokens[0].value
        self.publish(pair, direction)
        for number in range(3):
            self.open_desk()
            self.connect(number, "Kraken")
        self.enrol(0, 0), self.enrol(1, 0)
        self.generate("floor", 0, OVERLAPS[0])
        self.add_bot(0), self.elect(0, pair, direction), self.generate("bot", 0, OVERLAPS[0])
        self.mint_for_a_desk(0)

    @precondition(lambda self: len(self.model.desks) < MAX_DESKS)
    @rule()
    def open_desk(self) -> None:
        row = desks.open_desk(desk=Desk(user=UserFactory.create()), actor=self.staff_actor)
        assert row is not None
        self.rows[row.public_id] = row
        self.model.open_desk(row.public_id, self.staff_actor)

    @property
    def staff_actor(self) -> Any:
        return self.staff.actor

    @rule(which=some, venue=st.sampled_from(["Kraken", "Binance"]))
    def connect(self, which: int, venue: str) -> None:
        desk = self.desk(which)
        row = self.row(desk)
        self.act(
            lambda: desks.connect(desk=row, venue=venue, actor=row.actor),
            lambda _: self.model.connect(desk, venue),
        )

    @rule(which=some)
    def disconnect(self, which: int) -> None:
        desk = self.desk(which)
        row = self.row(desk)
        self.act(
            lambda: desks.disconnect(desk=row, actor=row.actor),
            lambda _: self.model.disconnect(desk),
        )

    @rule(which=some, back=st.sampled_from([0, 0, 0, 1]))
    def enrol(self, which: int, back: int) -> None:
        """Enrols in the last card, or in one before it."""
        desk, card = self.desk(which), self.model.cards[-1 - back % len(self.model.cards)]
        row = self.row(desk)
        self.act(
            lambda: desks.enrol(desk=row, card_id=card.id, actor=row.actor),
            lambda _: self.model.enrol(desk, card),
        )

    @rule()
    def enrol_all(self) -> None:
        for which in range(len(self.model.desks)):
            self.enrol(which, 0)

    @rule(which=some)
    def withdraw(self, which: int) -> None:
        desk = self.desk(which)
        row = self.row(desk)
        self.act(
            lambda: desks.withdraw(desk=row, actor=row.actor),
            lambda _: self.model.withdraw(desk),
        )

    @rule(pair=pairs, direction=directions)
    def publish(self, pair: str, direction: str) -> None:
        name = f"Card {self.a_number()}"
        self.act(
            lambda: desks.publish_card(
                name=name, pair=pair, direction=direction, actor=self.staff_actor
            ),
            lambda card: self.model.publish(card.pk, name, pair, direction, self.staff_actor),
        )

    @rule()
    def retire(self) -> None:
        self.act(
            lambda: desks.retire_card(actor=self.staff_actor),
            lambda _: self.model.retire(self.staff_actor),
        )

    @rule(which=some, elsewhere=st.booleans())
    def deactivate(self, which: int, elsewhere: bool) -> None:
        desk = self.desk(which)
        with in_another_process(elsewhere):
            self.act(
                lambda: account_closing.deactivate(
                    user=self.row(desk).user, actor=self.staff_actor
                ),
                lambda _: self.model.deactivate(desk, self.staff_actor),
            )

    @rule(which=some)
    def reactivate(self, which: int) -> None:
        desk = self.desk(which)
        self.act(
            lambda: account_closing.reactivate(user=self.row(desk).user, actor=self.staff_actor),
            lambda _: self.model.reactivate(desk, self.staff_actor),
        )

    @rule(which=some, elsewhere=st.booleans(), really=st.booleans())
    def close(self, which: int, elsewhere: bool, really: bool) -> None:
        if not really:  # seldom: nothing happens to the desk any more
            return
        desk = self.desk(which)
        with in_another_process(elsewhere):
            self.act(lambda: close_account(self.row(desk)), lambda _: self.model.close(desk))

    # --- Bots -------------------------------------------------------------------------------------

    @rule(which=some)
    def add_bot(self, which: int) -> None:
        desk, name = self.desk(which), f"Bot {self.a_number()}"
        row = self.row(desk)
        if len(desk.bots) < MAX_BOTS:
            self.act(
                lambda: desks.add_automation(desk=row, name=name, actor=row.actor),
                lambda bot: self.model.add_bot(desk, bot.pk, name),
            )

    @rule(which=some, pair=pairs, direction=directions)
    def elect(self, which: int, pair: str, direction: str) -> None:
        bot = self.bot(which)
        row = self.bot_row(bot)
        self.act(
            lambda: desks.elect(
                automation=row, pair=pair, direction=direction, actor=row.desk.actor
            ),
            lambda _: self.model.elect(bot, pair, direction),
        )

    @rule(which=some)
    def withdraw_bot(self, which: int) -> None:
        bot = self.bot(which)
        row = self.bot_row(bot)
        self.act(
            lambda: desks.withdraw(desk=row.desk, automation=row, actor=row.desk.actor),
            lambda _: self.model.withdraw_bot(bot),
        )

    @rule(which=some, seconds=st.sampled_from([None, 60]))
    def limit_age(self, which: int, seconds: int | None) -> None:
        bot = self.bot(which)
        row = self.bot_row(bot)
        self.act(
            lambda: change_automation(
                automation=row, expectation=None, max_age=seconds, actor=row.desk.actor
            ),
            lambda _: self.model.limit_age(bot, seconds),
        )

    @rule(which=some, elsewhere=st.booleans())
    def remove_bot(self, which: int, elsewhere: bool) -> None:
        bot = self.bot(which)
        row = self.bot_row(bot)
        with in_another_process(elsewhere):
            self.act(
                lambda: tokens.remove_automation(automation=row, actor=row.desk.actor),
                lambda _: self.model.remove_bot(bot),
            )

    # --- Credentials ------------------------------------------------------------------------------

    @rule(
        scopes=st.sampled_from([["read"], ["write"], ["read", "write"]]),
        life=st.sampled_from(LIVES),
    )
    def mint_for_the_platform(self, scopes: list[str], life: timedelta | None) -> None:
        """By the API, with the session of a member of the staff."""
        expires_at = self.model.now + life if life is not None else None
        body = {
            "scope": "platform",
            "name": f"Engine {self.a_number()}",
            "scopes": scopes,
            "expiresAt": service.rfc3339(expires_at),
        }
        browser = signed_in(self.staff, "password")
        answer = browser.post(TOKENS, body, content_type="application/json")
        if expires_at and expires_at <= self.model.now:
            assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
            return
        self.minted(
            answer, str(body["name"]), self.staff_actor, scopes=scopes, expires_at=expires_at
        )

    @rule(which=some)
    def mint_for_a_desk(self, which: int) -> None:
        """By the API, with the session of the desk's owner."""
        desk, name = self.desk(which), f"Token {self.a_number()}"
        if not desk.is_active:  # nobody can sign in
            return
        browser = signed_in(self.row(desk).user, "password")
        body = {"scope": "desk", "name": name}
        answer = browser.post(TOKENS, body, content_type="application/json")
        self.minted(answer, name, desk.actor, desk=desk)

    def minted(self, answer: Any, name: str, actor: Any, **more: Any) -> None:
        assert answer.status_code == 201, answer.json()
        record = answer.json()
        self.model.mint(record["id"], record.pop("token"), name, actor, **more)
        del record["lastUsedAt"]
        assert record == self.model.tokens[-1].record()

    @rule(which=some, by=some, elsewhere=st.booleans())
    def revoke(self, which: int, by: int, elsewhere: bool) -> None:
        """By the API: with any token, or with the session of a member of the staff."""
        revocable = self.model.tokens[1:]  # not that of who reads after each step
        token = revocable[-1 - which % len(revocable)]
        path = f"{TOKENS}?{urlencode({'id': token.id})}"
        with in_another_process(elsewhere):
            if by % 2:
                answer = signed_in(self.staff, "password").delete(path)
                actor = self.staff_actor
            else:
                value = token.value if by % 4 else self.token(by)
                answer = _delete(path, value)
                caller = self.expect(answer, lambda: self.model.may_revoke(value, token))
                if caller is None:
                    return
                actor = caller.actor
        self.model.revoke(token, actor)
        record = answer.json()
        del record["lastUsedAt"]
        assert record == token.record()

    @rule(
        owner=st.sampled_from(["bot", "bot", "bot", "floor", "nox"]),
        which=some,
        overlap=st.sampled_from(OVERLAPS),
        elsewhere=st.booleans(),
    )
    def generate(self, owner: str, which: int, overlap: timedelta, elsewhere: bool = False) -> None:
        bot = self.bot(which) if owner == "bot" else None
        if bot and bot.is_removed:
            return
        row = self.bot_row(bot) if bot else None
        source = Source.TRADINGVIEW if bot else Source(owner)
        actor = bot.desk.actor if bot else self.staff_actor
        by = row.desk.actor if row else self.staff_actor
        with in_another_process(elsewhere):
            text, secret = tokens.generate_secret(
                source=source, automation=row, overlap=overlap, actor=by
            )
        self.model.generate(secret.public_id, text, bot or owner, overlap, actor)

    @rule(which=some, elsewhere=st.booleans())
    def end_secret(self, which: int, elsewhere: bool) -> None:
        secret = self.secret(which)
        row = SigningSecret.objects.get(public_id=secret.id)
        by = self.row(secret.bot.desk).actor if secret.bot else self.staff_actor
        with in_another_process(elsewhere):
            tokens.end_secret(secret=row, actor=by)
        self.model.end_secret(secret, by)

    # --- Time -------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.001, 1, 20, 61, 3600]))
    def wait(self, seconds: float) -> None:
        self.go_to(self.model.now + timedelta(seconds=seconds))

    @rule(before=st.booleans())
    def wait_for_an_end(self, before: bool) -> None:
        """To the moment at which the next credential ends, or right before it."""
        ends = [token.expires_at for token in self.model.tokens if token.revoked_at is None]
        ends += [secret.ends_at for secret in self.model.secrets]
        coming = [end for end in ends if end is not None and end > self.model.now + MOMENT]
        if coming:
            self.go_to(min(coming) - before * MOMENT)

    def go_to(self, moment: datetime) -> None:
        self.model.now = moment
        self.coordinates.move_to(moment, tick=False)

    # --- Signals ----------------------------------------------------------------------------------

    @rule(wanted=SIGNALS_SENT)
    def send(self, wanted: Json) -> None:
        self.push(*self.a_request(wanted))

    @rule(wanted=SIGNALS_SENT)
    def send_another(self, wanted: Json) -> None:
        self.push(*self.a_request(wanted))

    @rule(wanted=SIGNALS_SENT)
    def check_and_send(self, wanted: Json) -> None:
        path, request = self.a_request(wanted)
        if path == HOOK:
            self.compare(self.post(CHECK, request), *self.model.check(request))
        self.push(path, request)

    @precondition(lambda self: self.requests)
    @rule(which=some, fault=st.none() | st.sampled_from(list(FAULTS)), signed_anew=st.booleans())
    def repeat(self, which: int, fault: str | None, signed_anew: bool) -> None:
        """Sends a signal again, as it was or with a change, maybe with the present credential."""
        path, sent = self.requests[-1 - which % len(self.requests)]
        body = dict(sent.body)
        if fault:
            FAULTS[fault](body) if {"pair", "direction"} <= body.keys() else None
        credential = {"bearer": sent.bearer, "signed_with": sent.signed_with}
        if signed_anew:
            credential = self.own_credential(body, path, which)
        signed_at = int(self.model.now.timestamp())
        request = Request(
            body, self.a_request_id(), signed_at=signed_at, deploy_to=sent.deploy_to, **credential
        )
        self.push(path, request)

    def push(self, path: str, request: Request) -> None:
        answer = self.post(path, request)
        self.compare(answer, *self.model.push(request, answer.json()))
        self.requests.append((path, request))

    def post(self, path: str, request: Request) -> Response:
        raw, headers = written(request.body), {"X-Request-Id": request.request_id}
        if request.signed_with:
            headers |= signed(request.signed_with, body=raw, at=request.signed_at)
        return post(path, raw, request.bearer, headers=headers)

    def compare(self, answer: Response, status: int, meant: Json) -> None:
        said = answer.json()
        assert (answer.status_code, said.get("code")) == (status, meant.get("code")), said
        if status == 200:
            assert {**said, "ignored": set(said["ignored"])} == meant
        else:
            names = ("code", "reason", "sent", "elected", "first", "identical")
            assert {name: said[name] for name in names if name in said} == meant

    def a_request(self, wanted: Json) -> tuple[str, Request]:
        body, path = self.a_body(wanted), HOOK
        if wanted["shape"] == "deploy":
            path = deploy_path(self.a_target(wanted))
        for fault in wanted["faults"]:
            if {"pair", "direction"} <= body.keys():
                FAULTS[fault](body)
        request = Request(
            body,
            self.a_request_id(),
            signed_at=int(self.model.now.timestamp()) + wanted["clock"],
            deploy_to=self.a_target(wanted) if path != HOOK else None,
            **self.a_credential(wanted, body, path),
        )
        return path, request

    def a_request_id(self) -> str:
        return f"request-{self.a_number()}"

    def a_target(self, wanted: Json) -> str:
        """Mostly a desk. Sometimes there is none."""
        return "usr_" + "0" * 22 if wanted["target"] == 11 else self.desk(wanted["target"]).user_id

    def a_body(self, wanted: Json) -> Json:
        """A signal that its target elected, as far as it elected anything."""
        shape, bot, target = wanted["shape"], self.bot(wanted["target"]), self.a_target(wanted)
        choice = bot.election if shape == "bot" else self.model.card
        pair, direction = (choice.pair, choice.direction) if choice else ("BTC/USDT", "long")
        body = {"pair": pair, "direction": direction, "elected": True}
        nonce, number = f"n-{self.a_number()}", wanted["nonce"]
        if number is not None and self.requests:
            old = self.requests[-1 - number % len(self.requests)][1].body
            nonce = old.get("nonce") or old.get("action_id", "")[4:] or nonce
        if shape == "nox":
            aim = {"userId": target} if wanted["target"] % 3 == 0 else {}
            return {
                **body,
                **aim,
                "source": "nox",
                "fanout": wanted["fanout"],
                "mode": wanted["mode"],
                "action_id": f"act_{nonce}",
                "trace_id": "trc_1",
                "size_quote": wanted["size"],
                "rationale": "The trend holds.",
            }
        body["nonce"] = nonce
        if shape == "bot":
            sent_at = {}
            if wanted["age"] is not None:
                sent = self.model.now - timedelta(milliseconds=wanted["age"])
                sent_at = {"sentAt": service.rfc3339(sent)}
            return {**body, **sent_at, "source": "tradingview", "botId": bot.id}
        body["source"] = "floor"
        if shape == "desk":
            return {**body, "userId": target, "fanout": wanted["fanout"]}
        return {**body, "fanout": True} if shape == "fan-out" else body

    def a_credential(self, wanted: Json, body: Json, path: str) -> Json:
        own, which = self.own_credential(body, path, wanted["which"]), wanted["which"]
        match wanted["credential"]:
            case "own":
                return own
            case "another secret":
                return {"signed_with": self.secret(which).text}
            case "another token":
                return {"bearer": self.token(which)}
            case "both":
                return {**own, "bearer": self.token(which)}
            case "wrong":
                return {"signed_with": "svc_sign_wrong"}
        return {}

    def own_credential(self, body: Json, path: str, which: int) -> Json:
        """What may send this signal now, if there is anything."""
        source = body["source"]
        owner = body["botId"] if source == "tradingview" else source
        if source == "nox" and not any(each.owner == "nox" for each in self.model.secrets):
            owner = "floor"
        secrets = self.model.live_secrets(owner)
        if path == HOOK and secrets and (source == "tradingview" or which % 2):
            return {"signed_with": secrets[which % len(secrets)].text}
        if source == "tradingview":
            return {}
        writing = [each for each in self.model.tokens if "write" in each.scopes]
        valid = [each for each in writing if each.is_valid(self.model.now)]
        return {"bearer": (valid or writing)[-1].value}

    # --- Reading ----------------------------------------------------------------------------------

    @invariant()
    def what_the_step_wrote_is_what_the_model_wrote(self) -> None:
        if not self.model.log:
            return
        seen = []
        while True:
            page = self.get(EVENTS, self.observer, after=self.observed, limit=1000).json()
            seen += page["events"]
            self.observed = page["next"]
            if not page["more"]:
                break
        assert seen == [event.seen_by(None) for event in self.model.log[self.checked :]]
        self.checked = len(self.model.log)

    @rule(which=some, cursor=some, limit=limits)
    def read_a_page(self, which: int, cursor: int, limit: int) -> None:
        """With any token, behind any cursor that anybody got."""
        value = self.token(which)
        after, position, epoch = self.cursors[-1 - cursor % len(self.cursors)]
        answer = self.get(EVENTS, value, after=after, limit=limit)
        token = self.expect(answer, lambda: self.may_read(value, after, epoch))
        if token is None:
            return
        page = answer.json()
        expected = [event for event in self.model.view(token.desk) if event.position > position]
        assert page["events"] == [event.seen_by(token.desk) for event in expected[:limit]]
        assert page["more"] == (len(expected) > limit)
        examined = expected[limit - 1].position if page["more"] else len(self.model.log)
        self.cursors.append((page["next"], examined, self.epoch))

    def may_read(self, value: str, after: str | None, epoch: int) -> service.Token:
        token = self.model.may(value, "read")
        if after is not None and epoch != self.epoch:
            raise Refusal(422, "cursor_lost")
        return token

    @rule(
        which=some,
        desk=some | st.none(),
        bot=some | st.none(),
        signal=some | st.none(),
        kinds=st.lists(st.sampled_from(["signal.filled", "signal.refused", "card.published"])),
        since=some | st.none(),
        until=some | st.none(),
        order=st.sampled_from(["asc", "desc"]),
        limit=limits,
    )
    def read_with_filters(
        self,
        which: int,
        desk: int | None,
        bot: int | None,
        signal: int | None,
        kinds: list[str],
        since: int | None,
        until: int | None,
        order: str,
        limit: int,
    ) -> None:
        value = self.token(which)
        of_desk = None if desk is None else self.desk(desk)
        of_bot = None if bot is None else self.bot(bot)
        answers = list(self.model.first.values())
        signal_id = answers[signal % len(answers)]["signal"]["id"] if signal and answers else None
        first, last = (
            None if moment is None else self.model.log[moment % len(self.model.log)].at
            for moment in (since, until)
        )
        if first and last and last <= first:
            last = None
        query = {
            "userId": of_desk and of_desk.user_id,
            "botId": of_bot and of_bot.id,
            "signal": signal_id,
            "kind": list(dict.fromkeys(kinds)) or None,
            "since": service.rfc3339(first),
            "until": service.rfc3339(last),
            "order": order,
            "limit": limit,
        }
        answer = self.get(EVENTS, value, **query)
        token = self.expect(answer, lambda: self.model.may(value, "read"))
        if token is None:
            return
        if of_desk and token.desk not in (None, of_desk):
            expected = []
        else:
            expected = [
                event
                for event in self.model.view(of_desk or token.desk)
                if (of_bot is None or event.names(of_bot.id))
                and (not kinds or event.kind in kinds)
                and (signal_id is None or (event.signal and event.signal["id"] == signal_id))
                and (first is None or event.at >= first)
                and (last is None or event.at < last)
            ]
        expected = expected if order == "asc" else expected[::-1]
        shown = [event.seen_by(token.desk) for event in expected[:limit]]
        assert (answer.json()["events"], answer.json()["more"]) == (shown, len(expected) > limit)

    @rule(which=some)
    def read_ones_desk(self, which: int) -> None:
        value = self.token(which)
        answer = self.get(ME, value)
        token = self.expect(answer, lambda: self.model.may(value, "read", for_platform=False))
        if token:
            assert answer.json() == token.desk.record()

    @rule(which=some, desk=some)
    def read_a_desk(self, which: int, desk: int) -> None:
        value, chosen = self.token(which), self.desk(desk)
        answer = self.get(f"{DESKS}/{chosen.user_id}", value)

        def allowed() -> bool:
            self.model.may(value, "read", for_platform=True)
            if not chosen.is_active:
                raise Refusal(404, "not_found")
            return True

        if self.expect(answer, allowed):
            assert answer.json() == chosen.record()

    @rule(
        which=some,
        query=st.sampled_from([{}, {"ready": 1}, {"ready": 0}, {"connected": 1}, {"connected": 0}]),
        limit=limits,
    )
    def read_the_desks(self, which: int, query: Json, limit: int) -> None:
        value = self.token(which)
        answer = self.get(DESKS, value, **query, limit=limit)
        if self.expect(answer, lambda: self.model.may(value, "read", for_platform=True)):
            is_ready, is_connected = query.get("ready"), query.get("connected")
            self.assert_listed(
                self.pages_of(answer, value, query),
                [
                    desk
                    for desk in self.model.desks
                    if desk.is_active
                    and is_ready in (None, int(desk.election is not None))
                    and is_connected in (None, int(desk.venue is not None))
                ],
            )

    def pages_of(self, answer: Response, token: str, query: Json) -> list[Json]:
        """The desks of the first page and those after it."""
        listed, page = list(answer.json()["desks"]), answer.json()
        while page["next"]:
            page = self.get(DESKS, token, **query, after=page["next"], limit=2).json()
            listed += page["desks"]
        return listed

    @staticmethod
    def assert_listed(listed: list[Json], expected: list[service.Desk]) -> None:
        by_id = sorted(listed, key=lambda record: record["userId"])
        records = sorted((desk.record() for desk in expected), key=lambda each: each["userId"])
        assert by_id == records

    @rule(limit=limits)
    def bring_the_copy_up_to_date(self, limit: int) -> None:
        """Reads one more page of the desks, or of those that changed, as an engine does."""
        page = self.get(DESKS, self.observer, **self.copy_query, limit=limit).json()
        if page.get("cardChanged"):
            for record in self.copy.values():
                record.update(ready=False, election=None)
        for record in page["desks"]:
            self.copy[record["userId"]] = record
            if record.get("removed"):
                del self.copy[record["userId"]]
        since = {"changedSince": page["asOf"]} if page["next"] is None else {}
        kept = {name: self.copy_query[name] for name in self.copy_query if name == "changedSince"}
        self.copy_query = since or {**kept, "after": page["next"]}

    @rule(which=some, nonce=some, by_id=st.booleans())
    def look_a_signal_up(self, which: int, nonce: int, by_id: bool) -> None:
        value, answers = self.token(which), list(self.model.first.values())
        if not answers:
            return
        meant = answers[-1 - nonce % len(answers)]
        signal = meant["signal"]
        by_nonce = {"nonce": signal["nonce"], "botId": signal["botId"]}
        if signal["botId"] is None:
            by_nonce["source"] = signal["source"]
        path = f"{SIGNALS}/{signal['id']}" if by_id else SIGNALS
        answer = self.get(path, value, **({} if by_id else by_nonce))

        def allowed() -> bool:
            token = self.model.may(value, "read")
            if token.desk and not by_id and signal["botId"] is None:
                raise Refusal(422, "invalid")
            is_own = signal["botId"] and token.desk and signal["userId"] == token.desk.user_id
            if token.desk and not is_own:
                raise Refusal(404, "not_found")
            return True

        if self.expect(answer, allowed):
            assert answer.json() == {name: meant[name] for name in meant if name != "ignored"}

    @rule(which=some)
    def list_tokens(self, which: int) -> None:
        value = self.token(which)
        answer = self.get(TOKENS, value)
        token = self.expect(answer, lambda: self.model.active_token(value))
        if token:
            desk = token.desk
            own = [
                each for each in self.model.tokens if each is token or (desk and each.desk is desk)
            ]
            listed = [{**each, "lastUsedAt": None} for each in answer.json()["tokens"]]
            assert listed == [{**each.record(), "lastUsedAt": None} for each in own]

    @rule(really=st.booleans())
    def restore(self, really: bool) -> None:
        """A new epoch: every cursor is lost."""
        if really:
            call_command("new_epoch", stdout=StringIO())
            self.epoch += 1
            answer = self.get(EVENTS, self.observer, after=self.observed)
            assert (answer.status_code, answer.json()["code"]) == (422, "cursor_lost")
            self.observed, self.checked = None, 0
            self.copy, self.copy_query = {}, {}

    # --- The end ----------------------------------------------------------------------------------

    def check_the_end(self) -> None:
        for number, desk in enumerate(self.model.desks):
            if desk.is_active:
                self.mint_for_a_desk(number)
                self.read_everything(self.model.tokens[-1].value, desk, desk)
            self.read_everything(self.observer, desk, None)
        self.read_everything(self.observer, None, None)
        for told in self.model.first.values():
            signal_id = told["signal"]["id"]
            query = {"signal": signal_id}
            listed = self.pages_of(self.get(DESKS, self.observer, **query), self.observer, query)
            self.assert_listed(listed, self.model.filled(signal_id))
        for _ in range(2):  # a pass may have begun: its end, and one more
            self.bring_the_copy_up_to_date(1000)
        self.assert_listed(
            list(self.copy.values()), [desk for desk in self.model.desks if desk.is_active]
        )
        broken = [line for line in audited() if line.broken]
        assert not broken

    def read_everything(
        self, token: str, desk: service.Desk | None, reader: service.Desk | None
    ) -> None:
        """All pages, from the first event to the last and back from it."""
        seen: list[Json] = []
        query = {"userId": desk.user_id} if desk else {}
        page: Json = {"next": None, "more": True}
        while page["more"]:
            page = self.get(EVENTS, token, **query, after=page["next"], limit=25).json()
            seen += page["events"]
        assert seen == [event.seen_by(reader) for event in self.model.view(desk)]
        newest_first = self.get(EVENTS, token, **query, order="desc", limit=1000).json()
        assert newest_first["events"] == seen[::-1]


def _delete(path: str, token: str) -> Response:
    return Client().delete(path, headers=bearer(token))


def forget_what_is_cached() -> None:
    """Drops the credentials of the last history: its rows were rolled back."""
    credential_cache.tokens._rows.clear()
    credential_cache.secrets._rows.clear()


@contextmanager
def in_another_process(elsewhere: bool) -> Iterator[None]:
    """Does something as another server would: this process keeps what it has cached."""
    caches: list[Any] = [credential_cache.tokens, credential_cache.secrets]
    kept = [dict(cache._rows) for cache in caches]
    yield
    if elsewhere:
        for cache, rows in zip(caches, kept, strict=True):
            cache._rows.clear()
            cache._rows.update(rows)


@pytest.mark.timeout(0 if HISTORIES else 3600)
def test_the_service_does_what_the_model_does(db):
    run_state_machine_as_test(
        Histories,
        settings=settings(
            max_examples=HISTORIES or IN_CI,
            derandomize=not HISTORIES,
            # Shrinking takes minutes.
            phases=list(Phase) if HISTORIES else [Phase.generate],
            report_multiple_bugs=False,
            stateful_step_count=STEPS,
            suppress_health_check=list(HealthCheck),
            database=None,
        ),
    )

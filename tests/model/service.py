"""The service as ``docs/contract.md`` describes it: desks, cards, bots, credentials and the log.

Plain Python, without a database, a clock or code of the service. What the service makes up (ids,
tokens, secrets, the errors of ``invalid``) is passed in.
"""

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

Json = dict[str, Any]
Actor = tuple[str, str | None]  # type and id

EVERYONE = "all"
PAIR = re.compile(r"[A-Z0-9._-]{1,20}/[A-Z0-9._-]{1,20}")
NONCE = re.compile(r"[\x21-\x7e]{1,128}")
TOLERANCE = 300  # seconds between a signature's timestamp and the clock
HIDDEN = ("nonce", "traceId", "decisionRef")  # of another sender's signal

COMMON = {"source", "pair", "direction", "elected"}
FIELDS = {
    "tradingview": COMMON | {"botId", "nonce", "mode", "sentAt"},
    "floor": COMMON | {"userId", "fanout", "nonce", "mode"},
    "nox": COMMON
    | {"userId", "fanout", "mode", "action_id", "trace_id"}
    | {"size_quote", "rationale", "decision_ref"},
}


def rfc3339(moment: datetime | None) -> str | None:
    return (
        None if moment is None else f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"
    )


def hint(text: str) -> str:
    """What may be shown of a credential: its prefix and its last four characters."""
    return f"{text[:9]}…{text[-4:]}"


@dataclass(eq=False)
class Card:
    id: str
    name: str
    pair: str
    direction: str
    opened: int
    closed: int | None = None

    def data(self) -> Json:
        return {"card": {**elected(self), "name": self.name}, "cardId": self.id}


@dataclass(eq=False)
class Election:
    """A choice on a card or for a bot, from the position ``opened`` to the position ``closed``."""

    pair: str
    direction: str
    opened: int
    at: datetime
    card: Card | None = None
    bot: "Bot | None" = None
    closed: int | None = None

    def stood_at(self, position: int) -> bool:
        ends = [end for end in (self.closed, self.card and self.card.closed) if end is not None]
        return self.opened < position and all(position < end for end in ends)

    @property
    def stands(self) -> bool:
        return self.closed is None and (self.card is None or self.card.closed is None)

    def data(self) -> Json:
        about = {"botId": self.bot.id} if self.bot else {}
        if self.card:
            about = {"card": self.card.name, "cardId": self.card.id}
        return {**elected(self), **about}


def elected(choice: Card | Election) -> Json:
    return {"pair": choice.pair, "direction": choice.direction}


@dataclass(eq=False)
class Token:
    """A token of a desk, or of the platform if ``desk`` is None."""

    id: str
    value: str
    name: str
    scopes: list[str]
    created_at: datetime
    desk: "Desk | None" = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    @property
    def actor(self) -> Actor:
        return "token", self.id

    def is_valid(self, at: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or at < self.expires_at)

    def record(self) -> Json:
        return {
            "id": self.id,
            "scope": "desk" if self.desk else "platform",
            "name": self.name,
            "scopes": self.scopes,
            "hint": hint(self.value),
            "createdAt": rfc3339(self.created_at),
            "expiresAt": rfc3339(self.expires_at),
            "revokedAt": rfc3339(self.revoked_at),
            "userId": self.desk and self.desk.user_id,
        }


@dataclass(eq=False)
class Secret:
    """A signing secret of a bot, or of ``floor`` or ``nox``."""

    id: str
    text: str
    owner: str
    created_at: datetime
    bot: "Bot | None" = None
    ends_at: datetime | None = None

    @property
    def actor(self) -> Actor:
        return "secret", self.id

    def is_valid(self, at: datetime) -> bool:
        return self.ends_at is None or at < self.ends_at

    def record(self) -> Json:
        return {
            "id": self.id,
            "owner": self.owner,
            "hint": hint(self.text),
            "createdAt": rfc3339(self.created_at),
            "endsAt": rfc3339(self.ends_at),
        }


@dataclass(eq=False)
class Bot:
    id: str
    name: str
    desk: "Desk"
    created_at: datetime
    election: Election | None = None
    max_age: int | None = None
    is_removed: bool = False

    def data(self) -> Json:
        return {"botId": self.id, "name": self.name}


@dataclass(eq=False)
class Desk:
    user_id: str
    created_at: datetime
    updated_at: datetime
    changed: int = 0
    venue: str | None = None
    connected_at: datetime | None = None
    elections: list[Election] = field(default_factory=list)  # on cards
    bots: list[Bot] = field(default_factory=list)
    credentials: set[str] = field(default_factory=set)  # ids of its tokens and its bots' secrets
    has_withdrawn: bool = False  # since it last enrolled, or disconnected
    is_active: bool = True
    is_closed: bool = False

    @property
    def actor(self) -> Actor:
        return "user", self.user_id

    @property
    def election(self) -> Election | None:
        """The one on the published card."""
        return next((each for each in self.elections if each.stands), None)

    @property
    def why_not_ready(self) -> str | None:
        if not self.is_active:
            return "deactivated"
        if self.venue is None:
            return "not_connected"
        if not self.elections:
            return "not_enrolled"
        if self.election:
            return None
        return "withdrawn" if self.has_withdrawn else "card_changed"

    def record(self) -> Json:
        choice = self.election
        return {
            "userId": self.user_id,
            "paper": True,
            "liveWrites": False,
            "connected": self.venue is not None,
            "ready": choice is not None,
            "connection": self.venue
            and {
                "venue": self.venue,
                "access": "trade-only",
                "connectedAt": rfc3339(self.connected_at),
            },
            "election": choice
            and {**elected(choice), "card": choice.card.name, "electedAt": rfc3339(choice.at)},
            "createdAt": rfc3339(self.created_at),
            "updatedAt": rfc3339(self.updated_at),
        }


def _sent(body: Json, name: str, form: re.Pattern[str], credential: object) -> str | None:
    """What a refusal repeats of a body: of a stranger's only what has the right form."""
    value = body.get(name)
    return value if value is not None and (credential or form.fullmatch(value)) else None


@dataclass(eq=False)
class Event:
    """An event of the log. ``topic`` is a desk, a card, ``EVERYONE``, or None for the platform."""

    position: int
    kind: str
    at: datetime
    actor: Actor | None
    topic: str | None
    data: Json
    platform_data: Json
    signal: Json | None

    def seen_by(self, desk: Desk | None) -> Json:
        """The event as this desk sees it; as the platform does if ``desk`` is None."""
        actor, signal, data = self.actor, self.signal, self.data
        if desk is None:
            data = {**data, **self.platform_data}
        else:
            actor = actor if actor and actor[1] in (desk.user_id, *desk.credentials) else None
            if signal and signal["botId"] is None:
                signal = {name: signal[name] for name in signal if name not in HIDDEN}
        return {
            "id": f"evt_{self.position}",
            "position": self.position,
            "kind": self.kind,
            "at": rfc3339(self.at),
            "actor": actor and {"type": actor[0], "id": actor[1]},
            "userId": self.topic if (self.topic or "").startswith("usr_") else None,
            "signal": signal,
            "data": data,
        }

    def names(self, bot_id: str) -> bool:
        named = [self.data.get("botId"), self.data.get("owner")]
        return bot_id in (*named, self.signal and self.signal["botId"])


@dataclass(frozen=True, eq=False)
class Request:
    """A signal on its way, to the hook or, with ``deploy_to``, to the desk in the path.

    ``signed_at`` is the Unix time of the signature, made with the text ``signed_with``.
    """

    body: Json
    request_id: str
    bearer: str | None = None
    signed_with: str | None = None
    signed_at: int = 0
    deploy_to: str | None = None


@dataclass(eq=False)
class Refusal(Exception):
    status: int
    code: str
    members: Json = field(default_factory=dict)


@dataclass(eq=False)
class Accepted:
    """What a signal does: its answer without what its position adds, and whom it concerns."""

    outcome: str
    signal: Json
    matched: int
    topic: str | None
    ignored: set[str]

    @property
    def filled(self) -> int:
        return self.matched if self.outcome == "filled" else 0


MADE_UP = "made up by the service"


class Service:
    """Everything that the service knows. Each method is one request or action.

    What changes something appends its events to ``log``. What is refused raises ``Refusal``.
    """

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.log: list[Event] = []
        self.desks: list[Desk] = []
        self.cards: list[Card] = []
        self.tokens: list[Token] = []
        self.secrets: list[Secret] = []
        self.first: dict[tuple[str, str], Json] = {}  # answers by signer and nonce

    # --- What is there ----------------------------------------------------------------------------

    @property
    def next_position(self) -> int:
        return len(self.log) + 1

    @property
    def bots(self) -> list[Bot]:
        return [bot for desk in self.desks for bot in desk.bots]

    @property
    def card(self) -> Card | None:
        """The published card."""
        return next((card for card in self.cards if card.closed is None), None)

    def desk_of(self, user_id: object) -> Desk | None:
        return next((desk for desk in self.desks if desk.user_id == user_id), None)

    def bot_of(self, bot_id: object) -> Bot | None:
        return next((bot for bot in self.bots if bot.id == bot_id and not bot.is_removed), None)

    def live_secrets(self, owner: str) -> list[Secret]:
        """The newest first."""
        return [
            each for each in self.secrets[::-1] if each.owner == owner and each.is_valid(self.now)
        ]

    def active_token(self, value: str | None) -> Token:
        """The token of a request. Raises the refusal of one that is missing or not valid."""
        if value is None:
            raise Refusal(401, "credentials_missing")
        found = [each for each in self.tokens if each.value == value and each.is_valid(self.now)]
        if not found:
            raise Refusal(401, "token_invalid")
        return found[0]

    def may(self, value: str | None, scope: str, *, for_platform: bool | None = None) -> Token:
        """The token of a request that needs this scope, and maybe one kind of token."""
        token = self.active_token(value)
        if for_platform not in (None, token.desk is None):
            raise Refusal(403, "not_allowed")
        if scope not in token.scopes:
            raise Refusal(403, "scope_missing")
        return token

    # --- Desks ------------------------------------------------------------------------------------

    def open_desk(self, user_id: str, actor: Actor) -> None:
        desk = Desk(user_id, self.now, self.now)
        self.desks.append(desk)
        self._write("desk.created", desk, {"venue": None}, actor)

    def connect(self, desk: Desk, venue: str) -> None:
        self._require_active(desk)
        if desk.venue is not None:
            raise Refusal(422, "invalid")
        desk.venue, desk.connected_at = venue, self.now
        self._write("desk.connected", desk, {"venue": venue}, desk.actor)

    def disconnect(
        self, desk: Desk, actor: Actor | None = None, reason: str = "disconnected"
    ) -> None:
        if desk.venue is None:
            return
        of_bots = [bot.election for bot in desk.bots if bot.election]
        standing = [each for each in (*of_bots, desk.election) if each and each.stands]
        for election in sorted(standing, key=lambda each: each.opened):
            self._withdraw(desk, election, reason, actor or desk.actor)
        venue, desk.venue, desk.connected_at, desk.has_withdrawn = desk.venue, None, None, True
        self._write("desk.disconnected", desk, {"venue": venue}, actor or desk.actor)

    def enrol(self, desk: Desk, card: Card) -> None:
        self._require_active(desk)
        if desk.venue is None or card.closed is not None:
            raise Refusal(422, "invalid")
        if desk.election is None:
            choice = Election(card.pair, card.direction, self.next_position, self.now, card)
            desk.elections.append(choice)
            desk.has_withdrawn = False
            self._write("election.made", desk, choice.data(), desk.actor)

    def withdraw(self, desk: Desk) -> None:
        if desk.election:
            self._withdraw(desk, desk.election, "asked", desk.actor)

    def deactivate(self, desk: Desk, actor: Actor) -> None:
        if desk.is_active:
            self._end(desk, actor, "deactivated")
            self._write("desk.deactivated", desk, {"venue": None}, actor)

    def reactivate(self, desk: Desk, actor: Actor) -> None:
        if desk.is_closed:
            raise Refusal(422, "invalid")
        if not desk.is_active:
            desk.is_active = True
            self._write("desk.reactivated", desk, {"venue": None}, actor)

    def close(self, desk: Desk) -> None:
        if desk.is_active:
            self._end(desk, desk.actor, "closed")
            desk.is_closed = True
            self._write("desk.closed", desk, {"venue": None}, desk.actor)

    def _end(self, desk: Desk, actor: Actor, reason: str) -> None:
        for bot in sorted(desk.bots, key=lambda bot: (bot.created_at, bot.id)):
            self.remove_bot(bot, actor, reason)
        self.disconnect(desk, actor, reason)
        for token in self.tokens:
            if token.desk is desk:
                self.revoke(token, actor)
        desk.is_active = False

    def _withdraw(self, desk: Desk, election: Election, reason: str, actor: Actor) -> None:
        election.closed = self.next_position
        if election.bot:
            election.bot.election = None
        else:
            desk.has_withdrawn = True
        self._write("election.withdrawn", desk, {**election.data(), "reason": reason}, actor)

    @staticmethod
    def _require_active(desk: Desk) -> None:
        if not desk.is_active:
            raise Refusal(403, "not_allowed")

    # --- Cards ------------------------------------------------------------------------------------

    def publish(self, card_id: str, name: str, pair: str, direction: str, actor: Actor) -> None:
        self.retire(actor)
        card = Card(card_id, name, pair, direction, self.next_position)
        self.cards.append(card)
        self._write("card.published", EVERYONE, card.data(), actor)

    def retire(self, actor: Actor) -> None:
        if self.card:
            card, self.card.closed = self.card, self.next_position
            self._write("card.retired", EVERYONE, card.data(), actor)

    # --- Bots -------------------------------------------------------------------------------------

    def add_bot(self, desk: Desk, bot_id: str, name: str) -> None:
        self._require_active(desk)
        bot = Bot(bot_id, name, desk, self.now)
        desk.bots.append(bot)
        self._write("automation.created", desk, bot.data(), desk.actor)

    def elect(self, bot: Bot, pair: str, direction: str) -> None:
        self._require_active(bot.desk)
        if bot.desk.venue is None or bot.is_removed:
            raise Refusal(422, "invalid")
        if bot.election:
            if elected(bot.election) == {"pair": pair, "direction": direction}:
                return
            self._withdraw(bot.desk, bot.election, "replaced", bot.desk.actor)
        bot.election = Election(pair, direction, self.next_position, self.now, bot=bot)
        self._write("election.made", bot.desk, bot.election.data(), bot.desk.actor)

    def withdraw_bot(self, bot: Bot) -> None:
        if bot.election:
            self._withdraw(bot.desk, bot.election, "asked", bot.desk.actor)

    def limit_age(self, bot: Bot, max_age: int | None) -> None:
        self._require_active(bot.desk)
        if bot.is_removed:
            raise Refusal(422, "invalid")
        if bot.max_age != max_age:
            bot.max_age = max_age
            data = {**bot.data(), "expected": None, "maxAge": max_age}
            self._write("automation.changed", bot.desk, data, bot.desk.actor)

    def remove_bot(self, bot: Bot, actor: Actor | None = None, reason: str = "removed") -> None:
        if bot.is_removed:
            return
        actor = actor or bot.desk.actor
        for secret in self.live_secrets(bot.id):
            self._end_secret(secret, self.now, actor)
        if bot.election:
            self._withdraw(bot.desk, bot.election, reason, actor)
        bot.is_removed = True
        self._write("automation.removed", bot.desk, bot.data(), actor)

    # --- Credentials ------------------------------------------------------------------------------

    def mint(
        self, token_id: str, value: str, name: str, actor: Actor, *, desk: Desk | None = None,
        scopes: list[str] | None = None, expires_at: datetime | None = None,
    ) -> None:  # fmt: skip
        """Mints a desk's token, which replaces its last one, or one of the platform."""
        for old in [each for each in self.tokens if desk and each.desk is desk]:
            self.revoke(old, actor)
        token = Token(token_id, value, name, scopes or ["read"], self.now, desk, expires_at)
        self.tokens.append(token)
        if desk:
            desk.credentials.add(token_id)
        self._write("token.minted", desk, token.record(), actor)

    def revoke(self, token: Token, actor: Actor) -> None:
        if token.revoked_at is None:
            token.revoked_at = self.now
            self._write("token.revoked", token.desk, token.record(), actor)

    def may_revoke(self, value: str, token: Token) -> Token:
        """The calling token. Raises the refusal if it may not revoke this token."""
        caller = self.active_token(value)
        if token is not caller and (caller.desk is None or caller.desk is not token.desk):
            raise Refusal(404, "not_found")
        return caller

    def generate(
        self, secret_id: str, text: str, owner: Bot | str, overlap: timedelta, actor: Actor
    ) -> None:
        bot = owner if isinstance(owner, Bot) else None
        name = owner.id if isinstance(owner, Bot) else owner
        for old in self.live_secrets(name):
            self._end_secret(old, self.now if old.ends_at else self.now + overlap, actor)
        secret = Secret(secret_id, text, name, self.now, bot)
        self.secrets.append(secret)
        if bot:
            bot.desk.credentials.add(secret_id)
        self._write("secret.generated", bot.desk if bot else None, secret.record(), actor)

    def end_secret(self, secret: Secret, actor: Actor) -> None:
        if secret.is_valid(self.now):
            self._end_secret(secret, self.now, actor)

    def _end_secret(self, secret: Secret, moment: datetime, actor: Actor) -> None:
        secret.ends_at = moment
        self._write("secret.ended", secret.bot.desk if secret.bot else None, secret.record(), actor)

    # --- Signals ----------------------------------------------------------------------------------

    def push(self, request: Request, answer: Json) -> tuple[int, Json]:
        """Takes in a signal. Returns the status and the answer.

        Of the service's own answer only the id of the signal and the errors of ``invalid`` count.
        """
        credential: Token | Secret | None = None
        try:
            credential = self._authorise(request)
            accepted = self._decide(request)
        except Refusal as refusal:
            self._record(request, credential, refusal, answer.get("errors"))
            return refusal.status, {"code": refusal.code, **refusal.members}
        return 200, self._accept(accepted, credential.actor, answer)

    def check(self, request: Request) -> tuple[int, Json]:
        """What ``POST /api/hooks/check`` answers. It changes nothing."""
        try:
            self._authorise(request)
            accepted = self._decide(request)
        except Refusal as refusal:
            return refusal.status, {"code": refusal.code, **refusal.members}
        names = ("source", "mode", "pair", "direction", "nonce", "fanout", "userId", "botId")
        return 200, {
            "paper": True,
            "liveWrites": False,
            "outcome": "checked",
            "wouldBe": accepted.outcome,
            "signal": {name: accepted.signal[name] for name in names},
            "matched": accepted.matched,
            "filled": accepted.filled,
            "ignored": accepted.ignored,
        }

    def _authorise(self, request: Request) -> Token | Secret:
        """The credential that authorises a signal (contract, section 3)."""
        source = request.body.get("source")
        if request.deploy_to is not None:
            return self.may(request.bearer, "write", for_platform=True)
        if request.bearer is None and request.signed_with is None:
            raise Refusal(401, "credentials_missing")
        age = int(self.now.timestamp()) - request.signed_at
        if request.signed_with and abs(age) > TOLERANCE:
            raise Refusal(401, "timestamp_invalid")
        token = self.active_token(request.bearer) if request.bearer else None
        if request.signed_with:
            return self._signer(request)
        if source == "tradingview":
            raise Refusal(401, "signature_missing")
        assert token
        return self.may(token.value, "write", for_platform=True)

    def _signer(self, request: Request) -> Secret:
        source = request.body.get("source")
        owner = request.body.get("botId") if source == "tradingview" else source
        nox_has_secrets = any(each.owner == "nox" for each in self.secrets)
        if source == "nox" and not nox_has_secrets:
            owner = "floor"
        for secret in self.live_secrets(str(owner)):
            if secret.text == request.signed_with:
                return secret
        if source == "nox" and request.signed_with in self._texts("floor"):
            raise Refusal(401, "floor_secret_refused")
        raise Refusal(401, "signature_invalid")

    def _texts(self, owner: str) -> list[str]:
        return [secret.text for secret in self.live_secrets(owner)]

    def _decide(self, request: Request) -> Accepted:
        """Applies the law in its order (contract, section 5). Raises the first refusal."""
        body = request.body
        if self._has_secret(body):
            raise Refusal(422, "exchange_secret")
        pair = body.get("pair")
        has_ticker = "ticker" in body or "symbol" in body
        is_incomplete = pair is None or body.get("direction") is None
        if (has_ticker and is_incomplete) or (isinstance(pair, str) and "/" not in pair):
            raise Refusal(422, "ticker_only")
        if body.get("mode") in ("armed", "live"):
            raise Refusal(422, "mode_refused")
        if body.get("elected") is not True:
            raise Refusal(422, "not_elected")
        signal = self._read(request)
        bot = self.bot_of(signal["botId"])
        if bot and bot.max_age is not None and body.get("sentAt") is None:
            raise Refusal(422, "invalid")
        desk = bot.desk if bot else self.desk_of(signal["userId"])
        if signal["userId"] is not None and desk is None:
            raise Refusal(404, "not_found")
        first = self.first.get((signal["botId"] or signal["source"], signal["nonce"]))
        if first:
            told = {name: first[name] for name in first if name != "ignored"}
            is_same = all(first["signal"][name] == signal[name] for name in signal)
            raise Refusal(409, "nonce_used", {"first": told, "identical": is_same})
        if bot and bot.max_age is not None:
            age = self.now - datetime.fromisoformat(body["sentAt"])
            if age > timedelta(seconds=bot.max_age):
                raise Refusal(422, "signal_too_old")
        choice = self._choice(signal, bot, desk)
        sent = {"pair": signal["pair"], "direction": signal["direction"]}
        for name in ("pair", "direction"):
            if sent[name] != elected(choice)[name]:
                raise Refusal(422, f"{name}_mismatch", {"sent": sent, "elected": elected(choice)})
        ignored = body.keys() - FIELDS[signal["source"]]
        if desk:
            signal = {**signal, "userId": desk.user_id}
        return self._outcome(signal, desk, ignored)

    def _has_secret(self, body: Json) -> bool:
        own = {each.value for each in self.tokens} | {each.text for each in self.secrets}
        return "apiKey" in body or any(value in own for value in body.values() if value)

    def _read(self, request: Request) -> Json:
        """The signal in a body. Raises ``invalid`` if it has not the shape of its source."""
        body, source = request.body, request.body["source"]
        user_id, fanout, mode = body.get("userId"), body.get("fanout"), body.get("mode")
        if request.deploy_to is not None:
            is_elsewhere = user_id not in (None, request.deploy_to)
            user_id, is_wrong = request.deploy_to, is_elsewhere or fanout or source != "floor"
        elif source == "tradingview":
            user_id, fanout, is_wrong = None, False, False
        elif source == "floor":
            is_wrong = not fanout and user_id is None
        else:
            is_wrong = fanout is None or not str(body.get("trace_id", "")).startswith("trc_")
        modes = ("draft", "dry_run", "paper") if source == "nox" else (None, "paper")
        nonce = body.get("action_id" if source == "nox" else "nonce")
        if (
            is_wrong
            or mode not in modes
            or not PAIR.fullmatch(body.get("pair") or "")
            or body.get("direction") not in ("long", "short")
            or not NONCE.fullmatch(nonce or "")
            or (source == "nox" and not str(nonce).startswith("act_"))
            or len(body.get("rationale") or "") > 500
        ):
            raise Refusal(422, "invalid")
        bot = self.bot_of(body["botId"]) if source == "tradingview" else None
        size = body.get("size_quote")
        return {
            "source": source,
            "mode": mode or "paper",
            "pair": body["pair"],
            "direction": body["direction"],
            "nonce": nonce,
            "fanout": bool(fanout),
            "userId": bot.desk.user_id if bot else user_id,
            "botId": bot and bot.id,
            "traceId": body.get("trace_id") if source == "nox" else None,
            "sizeQuote": str(size) if source == "nox" and size is not None else None,
            "rationale": body.get("rationale") if source == "nox" else None,
            "decisionRef": body.get("decision_ref") if source == "nox" else None,
        }

    def _choice(self, signal: Json, bot: Bot | None, desk: Desk | None) -> Election | Card:
        """What a signal must repeat. Raises the refusal if there is nothing."""
        if bot:
            if not bot.election:
                raise Refusal(422, "no_election")
            return bot.election
        if desk and signal["mode"] != "draft":
            if desk.why_not_ready:
                raise Refusal(422, "desk_not_ready", {"reason": desk.why_not_ready})
            return desk.election
        if self.card is None:
            raise Refusal(422, "no_card")
        return self.card

    def _outcome(self, signal: Json, desk: Desk | None, ignored: set[str]) -> Accepted:
        ready = [each.user_id for each in self.desks if each.election]
        topic, matched = desk.user_id if desk else None, 1 if desk else len(ready)
        has_target = desk is not None or signal["fanout"]
        if signal["mode"] == "draft" or (signal["mode"] == "paper" and not has_target):
            return Accepted("recorded", signal, 0, topic, ignored)
        if signal["mode"] == "dry_run":
            return Accepted("dry_run", signal, matched if has_target else 0, topic, ignored)
        return Accepted("filled", signal, matched, topic or self.card.id, ignored)

    def _accept(self, accepted: Accepted, actor: Actor, answer: Json) -> Json:
        made_up = answer.get("signal", {}).get("id", MADE_UP)
        placed = {"receivedAt": rfc3339(self.now), "position": self.next_position}
        signal = {"id": made_up, **accepted.signal, **placed}
        counts = {"matched": accepted.matched}
        if accepted.outcome == "filled":
            counts["filled"] = accepted.filled
        kind = f"signal.{accepted.outcome}"
        self._write(kind, accepted.topic, {}, actor, platform_data=counts, signal=signal)
        told = {
            "paper": True,
            "liveWrites": False,
            "outcome": accepted.outcome,
            "signal": signal,
            "matched": accepted.matched,
            "filled": accepted.filled,
            "ignored": accepted.ignored,
            "events": f"/api/v1/events?signal={made_up}",
            "desks": f"/api/v1/desks?signal={made_up}",
        }
        self.first[signal["botId"] or signal["source"], signal["nonce"]] = told
        return told

    def _record(
        self,
        request: Request,
        credential: Token | Secret | None,
        refusal: Refusal,
        errors: list[Json] | None,
    ) -> None:
        """Records a refusal if the contract says so (section 4, recorded refusals)."""
        body = request.body
        bot = self.bot_of(body.get("botId")) if body.get("source") == "tradingview" else None
        if credential is None:
            if refusal.code != "signature_invalid" or bot is None:
                return
        elif refusal.status not in (409, 422) or refusal.members.get("identical"):
            return
        named = self.desk_of(request.deploy_to or body.get("userId"))
        has_secret = self._has_secret(body)
        nonce = body.get("action_id" if body["source"] == "nox" else "nonce")
        is_told = credential is not None and not has_secret and NONCE.fullmatch(nonce or "")
        marks = {"requestId": request.request_id, "nonce": nonce if is_told else None}
        data = {
            "code": refusal.code,
            "source": body["source"],
            "sent": {
                "pair": None if has_secret else _sent(body, "pair", PAIR, credential),
                "direction": None
                if has_secret
                else _sent(body, "direction", re.compile("long|short"), credential),
            },
            "elected": (bot and bot.election and elected(bot.election))
            or refusal.members.get("elected"),
            "botId": bot and bot.id,
            **({"errors": errors} if errors else {}),
        }
        self._write(
            "signal.refused",
            bot.desk if bot else named,
            {**data, **marks} if bot else data,
            credential.actor if credential else None,
            platform_data={} if bot else marks,
        )

    # --- The log ----------------------------------------------------------------------------------

    def _write(
        self, kind: str, topic: Desk | str | None, data: Json, actor: Actor | None, *,
        platform_data: Json | None = None, signal: Json | None = None,
    ) -> None:  # fmt: skip
        name = topic.user_id if isinstance(topic, Desk) else topic
        event = Event(
            self.next_position, kind, self.now, actor, name, data, platform_data or {}, signal
        )
        self.log.append(event)
        if isinstance(topic, Desk) and kind.startswith(("desk.", "election.")):
            topic.changed, topic.updated_at = event.position, event.at

    def view(self, desk: Desk | None) -> list[Event]:
        """The events that a desk may see; all of them for the platform."""
        return [event for event in self.log if desk is None or self._sees(desk, event)]

    def filled(self, signal_id: str) -> list[Desk]:
        """The desks that a signal filled."""
        fills = [
            event
            for event in self.log
            if event.kind == "signal.filled" and event.signal["id"] == signal_id
        ]
        return [desk for desk in self.desks for event in fills if self._sees(desk, event)]

    @staticmethod
    def _sees(desk: Desk, event: Event) -> bool:
        return event.topic in (desk.user_id, EVERYONE) or any(
            each.card.id == event.topic and each.stood_at(event.position) for each in desk.elections
        )

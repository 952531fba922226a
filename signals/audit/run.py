"""The audit: what must hold between the log and the tables.

The log is replayed one owner after the other: the platform, whose cards and credentials stay in
memory, then each desk. Staff create those by hand, so they are few. The database sorts by owner,
and memory holds the rows of one desk. A replay begins with the rows that an earlier one left, and
may end before the log does: ``proof.py`` replays a long log in steps, so that the database sorts
the events of one step at a time. The last step compares the rows with the tables.
"""

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from heapq import merge
from itertools import groupby
from json import loads
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Case, F, Model, QuerySet, TextField, Value, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Cast, Coalesce, Collate, NullIf
from tqdm import tqdm

from desks.ids import USER
from desks.models import Card
from events.actors import ActorType
from events.feed import MAX_POSITION, read_head
from events.kinds import EVERYONE, Kind
from events.models import Event
from events.times import to_rfc3339
from signals.audit import state
from signals.audit.findings import AuditMismatchError, Findings, require
from signals.audit.rows import (
    BOTS,
    ELECTIONS,
    SECRETS,
    TABLES,
    TOKENS,
    LoggedEvent,
    Owner,
    Row,
    Table,
    column_of,
)
from signals.intake.models import SENDER_MEMBERS, Outcome, Signal, SignalRecord
from signals.law.signal_body import Mode
from tokens.choices import Source
from tokens.models.token import WRITE

CHUNK = 2000  # how many rows are read at a time
SIGNAL_KINDS = frozenset(f"signal.{outcome}" for outcome in Outcome.values)
MARKS = {"requestId", "nonce"}  # what names a refused request to its sender

# The members of a signal's record, and the columns that they repeat.
RECORD = {
    name: "public_id" if name == "id" else column_of(name)
    for name in SignalRecord.__required_keys__
}
columns_of_record = attrgetter(*RECORD.values())

# A row of the signals' table, with its ``owner``.
StoredSignal = Any
# What an owner begins with: the names of tables, and their rows.
Saved = dict[str, list[Row]]
# The owner's id, and what is done with the items of one kind that the owner has.
Part = tuple[str, Callable[[Owner, Iterator[Any]], None], Iterator[Any]]


@dataclass(frozen=True, slots=True)
class Proved:
    """What an earlier audit proved: the rows of each owner at a position, by the owner's id."""

    position: int = 0
    owners: Iterable[tuple[str, Saved]] = ()


class Stored(NamedTuple):
    """What the database holds: the events and signals of some positions, and the rows of tables.

    Each is sorted by owner; events and signals then by position. ``rows`` has every table at the
    end of the log, and none before.
    """

    events: Iterable[LoggedEvent]
    signals: Iterable[StoredSignal]
    rows: Mapping[Table, Iterable[tuple[str, Row]]]


def run_audit(
    findings: Findings, proved: Proved, keep: Callable[[Owner], None], upto: int | None = None
) -> None:
    """Checks the events and signals after what was proved, up to the position ``upto``.

    Without ``upto`` it checks all of them, compares the rows of each table with the result, and
    checks every other promise but the schema's. Call it in a snapshot, to read everything at once.
    It gives ``keep`` each owner at the end of its events, in the order of ids, and shows its
    progress on a terminal.
    """
    standing = compare_owners(findings, proved, read(proved.position, upto), keep)
    for position in standing.wrong_fan_outs():
        findings.consent.breach(Signal.objects.get(position=position).public_id, "matched")
    state.check_order(findings, proved.position, upto)
    if upto is not None:
        return
    for card_id, count in Card.objects.values_list("pk", "standing"):
        if count != standing.at(card_id):
            findings.cards.breach(card_id, "standing")
    state.check_head(findings)
    state.check_nonces(findings)
    state.check_users(findings)
    state.check_places(findings)
    state.check_keys(findings)


# --- What is read ---------------------------------------------------------------------------------


def read(after: int, upto: int | None) -> Stored:
    """Returns iterators that read these positions and, without ``upto``, the tables."""
    rows = {table: _rows(table) for table in TABLES} if upto is None else {}
    return Stored(_events(after, upto), _signals(after, upto), rows)


def _events(after: int, upto: int | None) -> Iterator[LoggedEvent]:
    """The events of these positions. Cards are the platform's here."""
    texts = [Cast(name, TextField()) for name in ("content", "platform_content")]
    columns = [name for name in LoggedEvent._fields if name not in ("content", "platform_content")]
    events = _sorted(Event, NullIf("topic", Value(EVERYONE)), after, upto)
    rows = events.values_list(*columns, *texts).iterator(chunk_size=CHUNK)
    # With disable=None, tqdm draws on a terminal only.
    end = read_head().position
    progress = tqdm(rows, initial=after, total=end, unit=" events", leave=False, disable=None)
    for *row, content, other in progress:
        yield LoggedEvent._make([*row, loads(content), other and loads(other)])


def _signals(after: int, upto: int | None) -> Iterator[StoredSignal]:
    """The signals of these positions, in the order of their events."""
    on_card = When(user_id=None, outcome=Outcome.FILLED, then=F("card_id"))
    signals = _sorted(Signal, Case(on_card, default=F("user_id")), after, upto)
    columns = [field.attname for field in Signal._meta.concrete_fields]
    return signals.values_list("owner", *columns, named=True).iterator(chunk_size=CHUNK)


def _sorted(
    model: type[Model], owner: Combinable, after: int, upto: int | None
) -> QuerySet[Any, Any]:
    """The rows of these positions, by owner and position."""
    rows: QuerySet[Any, Any] = model._default_manager.annotate(owner=_by_bytes(owner))
    rows = rows.filter(position__gt=after, position__lte=upto or MAX_POSITION)
    return rows.order_by("owner", "position")


def _rows(table: Table) -> Iterator[tuple[str, Row]]:
    """The rows of a table by owner."""
    rows = table.model._default_manager.annotate(desk_user_id=_by_bytes(table.desk))
    ordered = rows.order_by("desk_user_id", "pk").values().iterator(chunk_size=CHUNK)
    return ((row["desk_user_id"], row) for row in ordered)


def _by_bytes(owner: Combinable) -> Collate:
    """Text that is empty instead of NULL, and is sorted by its bytes as in Python."""
    collation = "C" if connection.vendor == "postgresql" else "BINARY"
    return Collate(Coalesce(owner, Value("")), collation)


# --- Owners ---------------------------------------------------------------------------------------


def compare_owners(
    findings: Findings, proved: Proved, stored: Stored, keep: Callable[[Owner], None]
) -> "Standing":
    """Replays each owner's events after what was proved, and compares its signals and rows.

    It reads nothing else. The cards and the fan-outs must agree with what it returns.
    """
    platform, standing = Owner(findings), Standing()
    check = partial(_check_positions, findings, standing)
    logged = merge(stored.events, stored.signals, key=itemgetter(0, 1))
    parts = [_parts(_restore, proved.owners), _parts(check, logged)]
    parts += [_parts(partial(_compare, table), rows) for table, rows in stored.rows.items()]
    by_owner = itemgetter(0)
    for owner_id, of_owner in groupby(merge(*parts, key=by_owner), key=by_owner):
        owner = Owner(findings, owner_id, platform) if owner_id else platform
        for _, take, items in of_owner:
            take(owner, items)
        standing.add(owner)
        if stored.rows:
            owner.report_missing()
        keep(owner)
    return standing


def _parts(
    take: Callable[[Owner, Iterator[Any]], None], items: Iterable[tuple[Any, ...]]
) -> Iterator[Part]:
    """Divides what is sorted by owner, its first member. ``take`` takes what one owner has."""
    for owner_id, of_owner in groupby(items, key=itemgetter(0)):
        yield owner_id, take, of_owner


def _restore(owner: Owner, items: Iterator[tuple[str, Saved]]) -> None:
    for _, saved in items:
        owner.restore(saved)


def _compare(table: Table, owner: Owner, items: Iterator[tuple[str, Row]]) -> None:
    for _, row in items:
        owner.rows[table].compare(row)


def _check_positions(
    findings: Findings,
    standing: "Standing",
    owner: Owner,
    items: Iterator[LoggedEvent | StoredSignal],
) -> None:
    """Compares an owner's events with each other, and with its signals.

    ``items`` are both, by position. A signal comes after its event.
    """
    for _, at_position in groupby(items, key=attrgetter("position")):
        rows = list(at_position)
        event = rows[0] if isinstance(rows[0], LoggedEvent) else None
        signal = None if isinstance(rows[-1], LoggedEvent) else rows[-1]
        findings.events.count += event is not None
        if event and event.kind in SIGNAL_KINDS:
            findings.signals.count += 1
            if signal:
                _check_signal(findings, standing, owner, event, signal)
            else:
                findings.signals.breach(event.id, "no row")
            continue
        if signal:
            findings.signals.count += 1
            findings.signals.breach(signal.public_id, "no event")
        if event:
            findings.events.check(event.id, partial(_apply, owner, event))


def _apply(owner: Owner, event: LoggedEvent) -> None:
    require(event.signal_id is None, "signal")
    if event.kind == Kind.SIGNAL_REFUSED:
        _check_refusal(event)
        return
    require(event.platform_content is None, "what the platform sees")
    require(event.content == {"signal": None, "data": event.data}, "members")
    owner.apply(event)


def _check_refusal(event: LoggedEvent) -> None:
    """A desk sees request id and nonce of its own bots' signals only, and the platform of all."""
    is_one = "suppressed" not in event.data
    seen = MARKS if is_one and event.data["botId"] else set()
    require(event.data.keys() & MARKS == seen, "what the desk sees")
    platform = (event.platform_content or event.content)["data"]
    require(platform.keys() & MARKS == (MARKS if is_one else set()), "what the platform sees")


# --- Signals --------------------------------------------------------------------------------------


class Standing:
    """How many elections stood on each card, by the log, and how many desks fan-outs say it were.

    The desks come after the fan-outs, so these are compared at the end.
    """

    def __init__(self) -> None:
        # By card, as positions: eight bytes each.
        self._made: defaultdict[str | None, array[int]] = defaultdict(partial(array, "q"))
        self._withdrawn: defaultdict[str | None, array[int]] = defaultdict(partial(array, "q"))
        self._fan_outs: defaultdict[str | None, array[int]] = defaultdict(partial(array, "q"))

    def add(self, owner: Owner) -> None:
        for election in owner.rows[ELECTIONS].rows.values():
            if card_id := election["card_id"]:
                self._made[card_id].append(election["opened"])
                if election["closed"]:
                    self._withdrawn[card_id].append(election["closed"])

    def add_fan_out(self, signal: StoredSignal) -> None:
        self._fan_outs[signal.card_id].extend((signal.position, signal.matched))

    def at(self, card_id: str) -> int:
        """How many stand in the end."""
        return len(self._made[card_id]) - len(self._withdrawn[card_id])

    def wrong_fan_outs(self) -> Iterator[int]:
        """The positions of the fan-outs that say another number."""
        for card_id, said in self._fan_outs.items():
            made, withdrawn = sorted(self._made[card_id]), sorted(self._withdrawn[card_id])
            for position, matched in zip(said[::2], said[1::2], strict=True):
                if bisect_left(made, position) - bisect_left(withdrawn, position) != matched:
                    yield position


def _check_signal(
    findings: Findings, standing: Standing, owner: Owner, event: LoggedEvent, signal: StoredSignal
) -> None:
    name, card = signal.public_id, owner.card_at(event.position)
    if differing := _differing(signal, event, card):
        findings.signals.breach(name, *differing)
    findings.credentials.count += 1
    findings.credentials.check(name, partial(_check_credential, owner, event, signal))
    findings.consent.count += 1
    findings.consent.check(name, partial(_check_consent, owner, event, signal, card))
    findings.consent.check(name, partial(_check_outcome, standing, signal))


def _differing(signal: StoredSignal, event: LoggedEvent, card: Row | None) -> list[str]:
    """Returns the names in which a signal and its event differ. ``card`` is the published card."""
    record = dict(zip(RECORD, columns_of_record(signal), strict=True))
    record["receivedAt"] = to_rfc3339(signal.received_at)
    seen_by_desk = record
    if signal.bot_id is None:
        seen_by_desk = {name: record[name] for name in RECORD if name not in SENDER_MEMBERS}
    is_filled = signal.outcome == Outcome.FILLED
    filled = {"filled": signal.filled} if is_filled else {}
    of_card = signal.user_id is None and is_filled
    compared = {
        "topic": (event.topic, signal.card_id if of_card else signal.user_id),
        "public_id": (event.signal_id, signal.public_id),
        "outcome": (event.kind, f"signal.{signal.outcome}"),
        "credential": (event.actor_id, signal.credential),
        "received_at": (event.at, signal.received_at),
        "signer": (signal.bot_id or signal.source, signal.signer),
        "card_id": (card["id"] if card and signal.bot_id is None else None, signal.card_id),
        "what desks see": (event.content, {"signal": seen_by_desk, "data": {}}),
        "what the platform sees": (
            event.platform_content,
            {"signal": record, "data": {"matched": signal.matched, **filled}},
        ),
    }
    return [name for name, (logged, stored) in compared.items() if logged != stored]


def _check_consent(
    owner: Owner, event: LoggedEvent, signal: StoredSignal, card: Row | None
) -> None:
    """A signal repeats the published card or its bot's election; one to a desk, what that elected.

    ``Standing`` counts the desks of a fan-out.
    """
    elected = [] if signal.bot_id else [card and card["card"]]
    if owner.id.startswith(USER) and signal.mode != Mode.DRAFT:
        owner.require_active()
        elected.append(owner.election_of(signal.bot_id, card))
    for one in elected:
        if one is None:
            raise AuditMismatchError("no election was standing")
        require(signal.pair == one["pair"], "pair")
        require(signal.direction == one["direction"], "direction")
    if signal.bot_id and event.kind == Kind.SIGNAL_FILLED:
        bot = owner.rows[BOTS].rows[signal.bot_id]
        bot.update(heard=event.at, heard_again=bot["heard_again"] or event.at)


def _check_credential(owner: Owner, event: LoggedEvent, signal: StoredSignal) -> None:
    """The credential was valid at the signal's position, and may send what it sent."""
    holder = owner if signal.bot_id else owner.platform
    tokens, secrets = owner.platform.rows[TOKENS].rows, holder.rows[SECRETS].rows
    name = signal.credential
    credential = tokens.get(name) or secrets.get(name)
    if credential is None or credential["opened"] > event.position:
        raise AuditMismatchError("no such credential in the log")
    has_changed = credential["changed"] < event.position
    if name in tokens:
        require(event.actor_type == ActorType.TOKEN, "actor")
        is_expired = credential["expires_at"] and credential["expires_at"] <= event.at
        is_revoked = credential["revoked_at"] and has_changed
        require(not (is_expired or is_revoked), f"{name} was expired or revoked")
        is_allowed = WRITE in credential["scopes"] and signal.bot_id is None
        require(is_allowed, f"{name} was not allowed to push it")
        return
    require(event.actor_type == ActorType.SECRET, "actor")
    has_ended = has_changed and credential["ends_at"] and credential["ends_at"] <= event.at
    require(not has_ended, f"{name} had ended")
    signer = signal.bot_id or signal.source
    if signer == Source.NOX and not any(
        one["owner"] == Source.NOX and one["opened"] < event.position for one in secrets.values()
    ):
        signer = Source.FLOOR  # the Floor's signs for Nox until there is one of Nox
    require(credential["owner"] == signer, f"{name} is not the secret of this source")


def _check_outcome(standing: Standing, signal: StoredSignal) -> None:
    """Checks the outcome and the counts, but for how many desks a fan-out matched."""
    outcome, *counts = _outcome(signal.mode, signal.fanout, signal.user_id, signal.matched)
    require(signal.outcome == outcome, "outcome")
    require([signal.matched, signal.filled] == counts, "matched")
    if signal.fanout and signal.user_id is None and signal.mode != Mode.DRAFT:
        standing.add_fan_out(signal)


def _outcome(mode: str, fanout: bool, user_id: str | None, standing: int) -> tuple[str, int, int]:
    """The outcome, ``matched`` and ``filled`` that a signal must have (contract, section 4)."""
    is_sent = fanout or user_id is not None
    matched = 1 if user_id is not None else standing if fanout else 0
    if mode == Mode.DRY_RUN:
        return Outcome.DRY_RUN, matched, 0
    if mode == Mode.DRAFT or not is_sent:
        return Outcome.RECORDED, 0, 0
    return Outcome.FILLED, matched, matched

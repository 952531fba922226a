"""The audit: what must hold between the log and the tables, checked on a snapshot.

Everything is read once, one owner after the other: the platform, whose cards and credentials stay
in memory, then each desk. Staff create those by hand, so they are few. The database sorts (on disk
if it has to), and memory holds the rows of one desk. An audit may begin with the rows that an
earlier one proved (``proof.py``). Then it reads the later events only, and all rows.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from operator import itemgetter

from django.db import connection
from django.db.models import Case, F, Value, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce, Collate, NullIf
from tqdm import tqdm

from desks.ids import USER
from desks.models import Card, Election
from events.actors import ActorType
from events.feed import read_head
from events.kinds import EVERYONE, Kind
from events.models import SEARCHED, Event
from signals.audit import state
from signals.audit.findings import AuditMismatchError, Findings, require
from signals.audit.rows import BOTS, SECRETS, TABLES, TOKENS, Owner, Row, Table
from signals.intake.models import Outcome, Signal
from signals.law.fields import Mode
from tokens.choices import Source
from tokens.models.token import WRITE

CHUNK = 2000  # how many rows are read at a time
SIGNAL_KINDS = frozenset(f"signal.{outcome}" for outcome in Outcome.values)
AFTER_ALL_EVENTS = 2**63  # a row's place in the order of its owner's events
MARKS = {"requestId", "nonce"}  # what names a refused request to its sender

# What an owner begins with: the names of tables, and their rows.
Saved = dict[str, list[Row]]
# The owner, the order among what is the owner's, and an event, a signal, a table with its row, or
# what the owner begins with.
Item = tuple[str, int, Event | Signal | tuple[Table, Row] | Saved]


@dataclass(frozen=True, slots=True)
class Proved:
    """What an earlier audit proved: the rows of each owner at a position, by the owner's id."""

    position: int = 0
    owners: Iterable[tuple[str, Saved]] = ()


def run_audit(
    proved: Proved | None = None, keep: Callable[[Owner], None] = lambda owner: None
) -> Findings:
    """Checks every promise but the schema's. Call it in a snapshot, to read everything at once.

    It goes on from what was ``proved``, and gives ``keep`` each owner at the end of its events, in
    the order of ids. It shows its progress on a terminal.
    """
    proved = proved or Proved()
    after = proved.position
    findings = Findings()
    platform = Owner(findings)
    # ``merge`` keeps the order of the streams: a signal comes right before its event.
    begin: Iterator[Item] = ((owner_id, 0, saved) for owner_id, saved in proved.owners)
    streams = [begin, _signals(after), _events(after), *map(_rows, TABLES)]
    items = merge(*streams, key=itemgetter(0, 1))
    for owner_id, of_owner in groupby(items, key=itemgetter(0)):
        owner = Owner(findings, owner_id, platform) if owner_id else platform
        _compare(findings, owner, of_owner)
        keep(owner)
    _check_outcomes(findings, after)
    state.check_order(findings, after)
    state.check_nonces(findings)
    state.check_users(findings)
    state.check_places(findings)
    state.check_keys(findings)
    return findings


# --- What is read ---------------------------------------------------------------------------------


def _events(after: int) -> Iterator[Item]:
    """The events after a position, by owner and position. Cards are the platform's here."""
    owner = _by_bytes(NullIf("topic", Value(EVERYONE)))
    events = Event.objects.annotate(owner=owner).order_by("owner", "position").defer(*SEARCHED)
    rows = events.filter(position__gt=after).iterator(chunk_size=CHUNK)
    # With disable=None, tqdm draws on a terminal only.
    for event in tqdm(rows, total=read_head().position - after, unit=" events", disable=None):
        yield event.owner, event.position, event  # type: ignore[attr-defined]  # annotated


def _signals(after: int) -> Iterator[Item]:
    """The signals after a position, in the order of their events."""
    on_card = When(user_id=None, outcome=Outcome.FILLED, then=F("card_id"))
    owner = _by_bytes(Case(on_card, default=F("user_id")))
    signals = Signal.objects.annotate(owner=owner).order_by("owner", "position")
    for signal in signals.filter(position__gt=after).iterator(chunk_size=CHUNK):
        yield _topic_of(signal) or "", signal.position, signal


def _rows(table: Table) -> Iterator[Item]:
    """The rows of a table by owner, each owner's after all events."""
    rows = table.model._default_manager.annotate(desk_user_id=_by_bytes(table.desk))
    ordered = rows.order_by("desk_user_id", "pk").values().iterator(chunk_size=CHUNK)
    for row in ordered:
        yield row["desk_user_id"], AFTER_ALL_EVENTS, (table, row)


def _by_bytes(owner: Combinable) -> Collate:
    """Text that is empty instead of NULL, and is sorted by its bytes as in Python."""
    collation = "C" if connection.vendor == "postgresql" else "BINARY"
    return Collate(Coalesce(owner, Value("")), collation)


# --- One owner ------------------------------------------------------------------------------------


def _compare(findings: Findings, owner: Owner, items: Iterator[Item]) -> None:
    """Compares an owner's events with each other, with its signals, and then with its rows."""
    for _, group in groupby(items, key=itemgetter(1)):
        event: Event | None = None
        signal: Signal | None = None
        for *_, item in group:
            match item:
                case Event():
                    event = item
                case Signal():
                    signal = item
                case table, row:
                    owner.rows[table].compare(row)
                case saved:
                    owner.restore(saved)
        _check_position(findings, owner, event, signal)
    for rows in owner.rows.values():
        rows.report_missing()


def _check_position(
    findings: Findings, owner: Owner, event: Event | None, signal: Signal | None
) -> None:
    """Checks what is at one position: an event, and the signal if it is the event of one."""
    findings.events.count += event is not None
    if event and event.kind in SIGNAL_KINDS:
        findings.signals.count += 1
        if signal:
            _check_signal(findings, owner, event, signal)
        else:
            findings.signals.breach(event.id, "no row")
        return
    if signal:
        findings.signals.count += 1
        findings.signals.breach(signal.public_id, "no event")
    if event:
        findings.events.check(event.id, lambda: _apply(owner, event))


def _apply(owner: Owner, event: Event) -> None:
    require(event.signal_id is None, "signal")
    if event.kind == Kind.SIGNAL_REFUSED:
        _check_refusal(event)
        return
    require(event.platform_content is None, "what the platform sees")
    require(event.content == {"signal": None, "data": event.data}, "members")
    owner.apply(event)


def _check_refusal(event: Event) -> None:
    """A desk sees request id and nonce of its own bots' signals only, and the platform of all."""
    is_one = "suppressed" not in event.data
    seen = MARKS if is_one and event.data["botId"] else set()
    require(event.data.keys() & MARKS == seen, "what the desk sees")
    platform = (event.platform_content or event.content)["data"]
    require(platform.keys() & MARKS == (MARKS if is_one else set()), "what the platform sees")


# --- Signals --------------------------------------------------------------------------------------


def _check_signal(findings: Findings, owner: Owner, event: Event, signal: Signal) -> None:
    name, card = signal.public_id, owner.card_at(event.position)
    if differing := _differing(signal, event, card):
        findings.signals.breach(name, *differing)
    findings.credentials.count += 1
    findings.credentials.check(name, lambda: _check_credential(owner, event, signal))
    findings.consent.check(name, lambda: _check_consent(owner, event, signal, card))


def _differing(signal: Signal, event: Event, card: Row | None) -> list[str]:
    """Returns the names in which a signal and its event differ. ``card`` is the published card."""
    everything = signal.to_dict()
    filled = {"filled": signal.filled} if signal.outcome == Outcome.FILLED else {}
    logged_and_stored = {
        "topic": (event.topic, _topic_of(signal)),
        "public_id": (event.signal_id, signal.public_id),
        "outcome": (event.kind, f"signal.{signal.outcome}"),
        "credential": (event.actor_id, signal.credential),
        "received_at": (event.at, signal.received_at),
        "signer": (signal.bot_id or signal.source, signal.signer),
        "card_id": (card["id"] if card and signal.bot_id is None else None, signal.card_id),
        "what desks see": (
            event.content,
            {"signal": signal.visible_to_desks(everything), "data": {}},
        ),
        "what the platform sees": (
            event.platform_content,
            {"signal": everything, "data": {"matched": signal.matched, **filled}},
        ),
    }
    return [name for name, (logged, stored) in logged_and_stored.items() if logged != stored]


def _topic_of(signal: Signal) -> str | None:
    of_card = signal.user_id is None and signal.outcome == Outcome.FILLED
    return signal.card_id if of_card else signal.user_id


def _check_consent(owner: Owner, event: Event, signal: Signal, card: Row | None) -> None:
    """A signal repeats the published card or its bot's election; one to a desk, what that elected.

    ``_check_outcomes`` counts the desks of a fan-out.
    """
    elected = [] if signal.bot_id else [card and card["card"]]
    if owner.id.startswith(USER) and signal.mode != Mode.DRAFT:
        owner.require_active()
        elected.append(owner.election_at(event.position, signal.bot_id))
    for one in elected:
        if one is None:
            raise AuditMismatchError("no election was standing")
        require(signal.pair == one["pair"], "pair")
        require(signal.direction == one["direction"], "direction")
    if signal.bot_id and event.kind == Kind.SIGNAL_FILLED:
        bot = owner.rows[BOTS].rows[signal.bot_id]
        bot.update(heard=event.at, heard_again=bot["heard_again"] or event.at)


def _check_credential(owner: Owner, event: Event, signal: Signal) -> None:
    """The credential was valid at the signal's position, and may send what it sent."""
    holder, name = owner if signal.bot_id else owner.platform, signal.credential
    tokens, secrets = owner.platform.rows[TOKENS].rows, holder.rows[SECRETS].rows
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


def _check_outcomes(findings: Findings, after: int) -> None:
    """Checks the outcome and the counts of each later signal, and the count of each card.

    The tables alone tell how many elections stood on a card at a position.
    """
    on_cards = Election.objects.exclude(card=None)
    made = on_cards.order_by("opened").values_list("opened", "card", Value(1))
    withdrawn = on_cards.exclude(closed=None).order_by("closed")
    signals = (
        Signal.objects.filter(position__gt=after)
        .order_by("position")
        .values_list(
            *("position", "card_id", "public_id", "mode", "outcome", "fanout"),
            *("user_id", "matched", "filled"),
        )
    )
    standing: Counter[str] = Counter()
    streams = made, withdrawn.values_list("closed", "card", Value(-1)), signals
    rows = (stream.iterator(chunk_size=CHUNK) for stream in streams)
    for _, card_id, what, *more in merge(*rows, key=itemgetter(0)):
        if not more:
            standing[card_id] += what
            continue
        findings.consent.count += 1
        mode, outcome, fanout, user_id, matched, filled = more
        expected = _outcome(mode, fanout, user_id, standing[card_id])
        if (outcome, matched, filled) != expected:
            findings.consent.breach(what, "outcome" if outcome != expected[0] else "matched")
    for card_id, count in Card.objects.values_list("pk", "standing"):
        if count != standing[card_id]:
            findings.cards.breach(card_id, "standing")


def _outcome(mode: str, fanout: bool, user_id: str | None, standing: int) -> tuple[str, int, int]:
    """The outcome, ``matched`` and ``filled`` that a signal must have (contract, section 4)."""
    is_sent = fanout or user_id is not None
    matched = 1 if user_id is not None else standing if fanout else 0
    if mode == Mode.DRY_RUN:
        return Outcome.DRY_RUN, matched, 0
    if mode == Mode.DRAFT or not is_sent:
        return Outcome.RECORDED, 0, 0
    return Outcome.FILLED, matched, matched

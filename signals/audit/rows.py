"""What the events change in the rows of each table, as a list, and the checks that follow from it.

The checks are the same for every table. An event is about a row that exists, or begins one. Of what
only one row may have, one is in use. An event repeats the row as it was before, but for the members
that it changes. In the end each column is as the latest event left it.

Nothing here is shared with the code that makes the changes: it would repeat that code's mistakes.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache, cached_property
from operator import itemgetter
from typing import Any, NamedTuple, get_type_hints

from django.db.models import F, Model, OuterRef, Subquery, Value
from django.db.models.expressions import Combinable

from desks.event_data import WithdrawalReason
from desks.expectation_rules import Expectation
from desks.ids import USER
from desks.models import Automation, Card, Connection, Desk, Election
from events.kinds import DATA, EVERYONE, PLATFORM, Kind
from events.times import to_rfc3339
from signals.audit.findings import AuditMismatchError, Finding, Findings, require, require_same
from signals.webhooks.models import (
    MAX_LAG,
    DisabledReason,
    State,
    Subscription,
    SubscriptionSecret,
)
from tokens.choices import Scope, Source
from tokens.models import SigningSecret, Token
from tokens.models.token import READ, WRITE

Row = dict[str, Any]
Key = str | int | None  # of a row, or of what only one row may have

KINDS = frozenset(Kind.values)  # ``Kind.values`` would be made anew for each event


class LoggedEvent(NamedTuple):
    """An event as the log holds it. ``owner`` is the userId of its desk, or empty for the platform.

    The fields have the names of the columns. It takes a fraction of the time of a model's instance.
    """

    owner: str
    position: int
    kind: str
    at: datetime
    actor_type: str | None
    actor_id: str | None
    topic: str | None
    signal_id: str | None
    content: Any
    platform_content: Any

    @property
    def id(self) -> str:
        return f"evt_{self.position}"

    @property
    def data(self) -> Any:
        return self.content["data"]


@dataclass(frozen=True)
class Change:
    """What events of one kind change in a row.

    ``sets`` are columns that follow, as values or as functions of the event and the row. They add
    to the members in ``reads``, or to all members of the table if a row begins with the event.
    ``needs`` are values of columns before the event, a tuple for any of several. ``check`` raises
    what else is wrong, and alone looks at the members in ``checked``. ``part`` is the member with
    the data about the row, if that is not the whole data; None if nothing repeats the row.
    """

    sets: Row | Callable[[LoggedEvent, Row], Row] = field(default_factory=dict)
    reads: tuple[str, ...] = ()
    needs: Row = field(default_factory=dict)
    check: Callable[["Owner", LoggedEvent, Row], None] | None = None
    checked: tuple[str, ...] = ()
    part: str | None = ""
    begins: bool = False
    removes: bool = False
    follows_the_end: bool = False


@dataclass(eq=False)
class Table:
    """A table, and how the log changes its rows.

    ``desk`` is the userId of a row's desk, empty for the platform. ``key`` is the column that names
    a row, and ``named_by`` finds its value. The members that the kind of event which begins a row
    always has are about the columns of their names. Those in ``ignored`` are in events of earlier
    releases only, and those in ``later`` not in theirs: such an event leaves the column as it was.
    Only one row of a ``slot`` may be in use: until its column ``ended_by`` has a value. ``derived``
    are values of a stored row in the form of the log.
    """

    model: type[Model]
    finding: str
    desk: Combinable
    key: str
    named_by: Callable[["Owner", LoggedEvent], Key]
    events: Mapping[str, Change]
    ended_by: str = "removed"
    slot: Callable[[Row], Key] = itemgetter("key")
    derived: Callable[[Row], Row] = lambda row: {}
    ignored: tuple[str, ...] = ()
    later: tuple[str, ...] = ()

    @cached_property
    def members(self) -> Row:
        """The columns by the members that are about them."""
        kind = next(kind for kind, change in self.events.items() if change.begins)
        declared, part = DATA[kind], self.events[kind].part
        if part:
            declared = get_type_hints(declared)[part]
        names: frozenset[str] = declared.__required_keys__  # type: ignore[attr-defined]
        return {name: _column(name, self.key) for name in (*names, *self.later)}


class Rows:
    """The rows of one owner in one table, by the events so far.

    A row holds its columns, its ``key``, and the positions of the event with which it began
    (``opened``) and of the latest about it (``changed``).
    """

    def __init__(self, table: Table, finding: Finding) -> None:
        self.table, self.finding = table, finding
        self.rows: dict[Key, Row] = {}
        self._latest: dict[Key, Row] = {}  # by slot
        self._compared: set[Key] = set()

    def apply(self, owner: "Owner", event: LoggedEvent) -> None:
        """Applies the next event, unless it raises ``AuditMismatchError``."""
        table, change = self.table, self.table.events[event.kind]
        key = table.named_by(owner, event)
        require(change.begins != (key in self.rows), "it exists already, or not yet")
        new = {"key": key, "desk_user_id": owner.id, "opened": event.position, table.key: key}
        row = self.rows.get(key) or {**new, "created_at": event.at}
        require(change.follows_the_end or not row.get(table.ended_by), "it has ended")
        for column, needed in change.needs.items():
            is_met = row[column] in needed if isinstance(needed, tuple) else row[column] == needed
            require(is_met, f"{column} was {row[column]}")
        if change.check:
            change.check(owner, event, row)
        after = {**row, **_columns_after(table, change, event, row)}
        if change.begins:
            require(not self.in_use(table.slot(after)), "another one was in use")
            self.rows[key] = self._latest[table.slot(after)] = row
        row.update(after, changed=event.position, updated_at=event.at)
        if change.removes:
            self.remove(key)

    def in_use(self, slot: Key) -> Row | None:
        """The row of a slot that is in use. It can only be the latest one."""
        row = self._latest.get(slot)
        return row if row and not row.get(self.table.ended_by) else None

    def all_in_use(self) -> Iterator[Row]:
        return (row for slot in self._latest if (row := self.in_use(slot)))

    def remove(self, key: Key) -> None:
        self.rows.pop(key)[self.table.ended_by] = True

    def restore(self, rows: list[Row]) -> None:
        """Begins with the rows that an earlier audit saved."""
        for row in map(dict, rows):
            self.rows[row["key"]] = self._latest[self.table.slot(row)] = row

    def compare(self, stored: Row) -> None:
        """Compares a stored row with the log."""
        self.finding.count += 1
        key, stored = stored[self.table.key], {**stored, **self.table.derived(stored)}
        logged = self.rows.get(key)
        if logged is None:
            self.finding.breach(_name(key), "not in the log")
            return
        self._compared.add(key)
        differing = [name for name, value in logged.items() if stored.get(name, value) != value]
        if differing:
            self.finding.breach(_name(key), *differing)

    def report_missing(self) -> None:
        """Reports the rows that the table does not hold."""
        for key in self.rows:
            if key not in self._compared:
                self.finding.breach(_name(key), "no row")


def _name(key: Key) -> str:
    return f"evt_{key}" if isinstance(key, int) else str(key)


def _columns_after(table: Table, change: Change, event: LoggedEvent, row: Row) -> Row:
    """The columns that an event changes. Raises ``AuditMismatchError`` if its data differs."""
    data = event.data[change.part] if change.part else event.data
    data = {name: row.get(_column(name, table.key)) for name in table.later} | data
    members = {**table.members, **{name: _column(name, table.key) for name in change.reads}}
    reads = members if change.begins else change.reads
    columns = {members[name]: _read(name, data[name]) for name in reads}
    sets = change.sets(event, row) if callable(change.sets) else change.sets
    for column, value in sets.items():
        columns[column] = value(event, row) if callable(value) else value
    if change.part is not None:
        after, left_out = {**row, **columns}, (*change.checked, *table.ignored)
        logged = {name: value for name, value in data.items() if name not in left_out}
        require_same(logged, {name: _shown(after[column]) for name, column in members.items()})
    return columns


@cache
def _column(member: str, key: str) -> str:
    """The column of a member: the key of the row, or the one of its name."""
    return key if member in ("id", "botId", "cardId") else column_of(member)


def column_of(member: str) -> str:
    """The column of the same name: ``createdAt`` is ``created_at``."""
    return re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", member)


def _read(member: str, value: object) -> object:
    if member.endswith("At") and isinstance(value, str):
        return datetime.fromisoformat(value)
    return value


def _shown(value: object) -> object:
    return to_rfc3339(value) if isinstance(value, datetime) else value


class Owner:
    """All rows of one desk by the events so far; or those of the platform, cards included.

    ``id`` is the userId of the desk. It is empty for the platform.
    """

    def __init__(self, findings: Findings, user_id: str = "", platform: "Owner | None" = None):
        self.id, self.platform = user_id, platform or self
        self.rows = {table: Rows(table, getattr(findings, table.finding)) for table in TABLES}

    def apply(self, event: LoggedEvent) -> None:
        """Applies the next event. Raises ``AuditMismatchError`` if it cannot follow."""
        require(event.kind in KINDS, "kind")
        family = event.kind.partition(".")[0]
        if event.topic is PLATFORM or event.topic == EVERYONE:
            families = ("card",) if event.topic else ("token", "secret", "subscription")
            require(family in families, "topic")
        else:
            require(event.topic.startswith(USER) and family != "card", "topic")
            if event.kind not in (Kind.DESK_CREATED, Kind.DESK_REACTIVATED):
                self.require_active()
        for table in TABLES:
            if event.kind in table.events:
                self.rows[table].apply(self, event)

    def restore(self, tables: dict[str, list[Row]]) -> None:
        """Begins with what ``saved`` returned at an earlier position."""
        for table, rows in self.rows.items():
            rows.restore(tables.get(table.finding, []))

    def saved(self) -> dict[str, list[Row]]:
        """The rows of each table that has any, in the order in which they began."""
        return {
            table.finding: list(rows.rows.values())
            for table, rows in self.rows.items()
            if rows.rows
        }

    def require_active(self) -> None:
        """Raises ``AuditMismatchError`` unless the desk exists and is not deactivated."""
        require(self.rows[DESKS].in_use(self.id), "the desk was deactivated, or did not exist")

    def card_at(self, position: int) -> Row | None:
        """The card that is published at a position."""
        cards = reversed(self.platform.rows[CARDS].rows.values())
        card = next((card for card in cards if card["opened"] < position), None)
        return card if card and (card["closed"] or position) >= position else None

    def election_of(self, bot_id: str | None, card: Row | None) -> Row | None:
        """The election that stands for a bot, or without one on the card that is published."""
        return self.rows[ELECTIONS].in_use(bot_id or (card["id"] if card else None))

    def report_missing(self) -> None:
        """Reports the rows that the tables do not hold."""
        for rows in self.rows.values():
            rows.report_missing()


# --- What several tables need ---------------------------------------------------------------------


def _at(event: LoggedEvent, row: Row) -> datetime:
    return event.at


def _position(event: LoggedEvent, row: Row) -> int:
    return event.position


def _topic(owner: Owner, event: LoggedEvent) -> str | None:
    return event.topic


def _data(member: str) -> Callable[[Owner, LoggedEvent], Any]:
    return lambda owner, event: event.data[member]


def _desk_of(rows: str) -> Subquery:
    """The userId of the desk that has a row among its ``rows``."""
    return Subquery(Desk.objects.filter(**{rows: OuterRef("pk")}).order_by().values("public_id"))


# --- Desks, connections and cards -----------------------------------------------------------------


def _check_disconnection(owner: Owner, event: LoggedEvent, row: Row) -> None:
    card = owner.card_at(event.position)
    still = (None, card["id"] if card else None)
    standing = [one for one in owner.rows[ELECTIONS].all_in_use() if one["card_id"] in still]
    require(not standing, "an election was still standing")


def _check_end(owner: Owner, event: LoggedEvent, row: Row) -> None:
    for table in (CONNECTIONS, BOTS, TOKENS, SECRETS, WEBHOOKS):
        require(not any(owner.rows[table].all_in_use()), f"it still had {table.finding}")


UNCONNECTED = {"venue": None, "connected": False, "enrolled_id": None}
DESKS = Table(
    model=Desk,
    finding="desks",
    desk=F("public_id"),
    key="public_id",
    named_by=_topic,
    ended_by="deactivated",
    events={
        Kind.DESK_CREATED: Change({**UNCONNECTED, "deactivated": False, "closed": 0}, begins=True),
        Kind.DESK_CONNECTED: Change({"connected": True}, ("venue",), {"connected": False}),
        Kind.DESK_DISCONNECTED: Change(
            UNCONNECTED, needs={"connected": True}, check=_check_disconnection, part=None
        ),
        Kind.DESK_DEACTIVATED: Change({"deactivated": True}, check=_check_end),
        Kind.DESK_CLOSED: Change({"deactivated": True, "closed": _position}, check=_check_end),
        Kind.DESK_REACTIVATED: Change(
            {"deactivated": False}, needs={"deactivated": True, "closed": 0}, follows_the_end=True
        ),
        Kind.ELECTION_MADE: Change(
            {"enrolled_id": lambda event, row: event.data.get("cardId", row["enrolled_id"])},
            needs={"connected": True},
            part=None,
        ),
        Kind.ELECTION_WITHDRAWN: Change(
            lambda event, row: {} if "botId" in event.data else {"enrolled_id": None}, part=None
        ),
    },
)
CONNECTIONS = Table(
    model=Connection,
    finding="connections",
    desk=_desk_of("connection"),
    key="desk_user_id",
    named_by=_topic,
    events={
        Kind.DESK_CONNECTED: Change({"connected_at": _at}, begins=True),
        Kind.DESK_DISCONNECTED: Change(removes=True),
    },
)
CARDS = Table(
    model=Card,
    finding="cards",
    desk=Value(""),
    key="id",
    named_by=_data("cardId"),
    ended_by="closed",
    slot=lambda row: "published",
    derived=lambda row: {"card": {name: row[name] for name in ("name", "pair", "direction")}},
    events={
        Kind.CARD_PUBLISHED: Change(
            {"published_at": _at, "closed": None, "retired_at": None}, begins=True
        ),
        Kind.CARD_RETIRED: Change({"closed": _position, "retired_at": _at}),
    },
)

# --- Elections ------------------------------------------------------------------------------------

TARGET = ("card", "cardId", "botId")


def _election(owner: Owner, event: LoggedEvent) -> Key:
    if event.kind == Kind.ELECTION_MADE:
        return event.position
    election = owner.election_of(event.data.get("botId"), owner.card_at(event.position))
    return election["opened"] if election else None


def _check_target(owner: Owner, event: LoggedEvent, row: Row) -> None:
    """The event names a bot that is not removed, or the published card, whose pair it repeats."""
    data, card = event.data, owner.card_at(event.position)
    target = {name: data[name] for name in TARGET if name in data}
    if "botId" in data:
        require(owner.rows[BOTS].in_use(data["botId"]), "the bot was removed, or did not exist")
        require_same(target, {"botId": data["botId"]})
    elif card is None:
        raise AuditMismatchError("no card was published")
    else:
        elected = {"name": target.pop("card"), "pair": data["pair"], "direction": data["direction"]}
        require_same({**target, **elected}, {"cardId": card["id"], **card["card"]})
    require(data.get("reason") in (None, *WithdrawalReason.values), "reason")


ELECTIONS = Table(
    model=Election,
    finding="elections",
    desk=_desk_of("elections"),
    key="opened",
    named_by=_election,
    ended_by="closed",
    slot=lambda row: row["automation_id"] or row["card_id"],
    events={
        Kind.ELECTION_MADE: Change(
            {
                "card_id": lambda event, row: event.data.get("cardId"),
                "automation_id": lambda event, row: event.data.get("botId"),
                "elected_at": _at,
                "closed": None,
                "reason": None,
            },
            check=_check_target,
            checked=TARGET,
            begins=True,
        ),
        Kind.ELECTION_WITHDRAWN: Change(
            {"closed": _position}, ("reason",), check=_check_target, checked=TARGET
        ),
    },
)

# --- Bots -----------------------------------------------------------------------------------------

# What the log holds of an expectation. When the service looks next (``due_at``) is not in it.
NOT_SILENT = {"silent_since": None, "silent_from": None}
NOT_EXPECTED = {"expected": None, "expected_since": None, **NOT_SILENT}


def _expectation(every: int | None, grace: int | None) -> Row | None:
    if every is None and grace is None:
        return None
    return {"every": every, "tradingDays": every is None, "grace": grace}


def _check_change(owner: Owner, event: LoggedEvent, row: Row) -> None:
    expected, max_age = event.data["expected"], event.data["maxAge"]
    is_whole = expected is None or expected == _expectation(expected["every"], expected["grace"])
    require(is_whole, "expected")
    require((expected, max_age) != (row["expected"], row["max_age"]), "nothing changed")


def _begin_anew(event: LoggedEvent, row: Row) -> Row:
    """A bot of which something else is expected is not silent, and its time counts from now."""
    expected = event.data["expected"]
    since = event.at if expected else None
    return {} if expected == row["expected"] else {"expected_since": since, **NOT_SILENT}


def _last_heard(event: LoggedEvent, row: Row) -> datetime:
    since: datetime = row["expected_since"]
    return max(since, row["heard"] or since)


def _check_silence(owner: Owner, event: LoggedEvent, row: Row) -> None:
    """Checks since when the bot is silent. The log does not know the zone of trading days."""
    require(row["expected"], "the bot was not expected")
    since, due = _last_heard(event, row), datetime.fromisoformat(event.data["dueAt"])
    every, grace = row["expected"]["every"], row["expected"]["grace"]
    by_utc = Expectation(every, grace).deadline(since, "UTC")
    require(event.data["since"] == to_rfc3339(since), "since")
    is_late = event.data["dueAt"] == to_rfc3339(due) and due <= event.at
    require(is_late and abs(due - by_utc) <= timedelta(days=0 if every else 3), "dueAt")


def _check_heard(owner: Owner, event: LoggedEvent, row: Row) -> None:
    require(row["silent_from"] is not None, "the bot was not silent")
    for name, column in {"since": "silent_since", "heardAt": "heard_again"}.items():
        require(row[column] and event.data[name] == to_rfc3339(row[column]), name)


def _check_removal(owner: Owner, event: LoggedEvent, row: Row) -> None:
    for table in (ELECTIONS, SECRETS):
        require(not owner.rows[table].in_use(row["key"]), f"it still had {table.finding}")


BOTS = Table(
    model=Automation,
    finding="automations",
    desk=_desk_of("automations"),
    key="id",
    named_by=_data("botId"),
    ended_by="removed_at",
    derived=lambda row: {"expected": _expectation(row["every"], row["grace"])},
    events={
        Kind.AUTOMATION_CREATED: Change(
            {**dict.fromkeys(("removed_at", "max_age", "heard", "heard_again")), **NOT_EXPECTED},
            begins=True,
        ),
        Kind.AUTOMATION_CHANGED: Change(_begin_anew, ("expected", "maxAge"), check=_check_change),
        Kind.AUTOMATION_QUIET: Change(
            {"silent_since": _last_heard, "silent_from": _position, "heard_again": None},
            needs={"silent_from": None},
            check=_check_silence,
            checked=("since", "dueAt"),
        ),
        Kind.AUTOMATION_HEARD: Change(NOT_SILENT, check=_check_heard, checked=("since", "heardAt")),
        Kind.AUTOMATION_REMOVED: Change({"removed_at": _at, **NOT_EXPECTED}, check=_check_removal),
    },
)

# --- Tokens and signing secrets -------------------------------------------------------------------


def _check_owner(owner: Owner, event: LoggedEvent, row: Row) -> None:
    whose = event.data["owner"]
    is_shared = whose in (Source.FLOOR, Source.NOX)
    require(owner.rows[BOTS].in_use(whose) if owner.id else is_shared, "owner")


def _check_secrets_end(owner: Owner, event: LoggedEvent, row: Row) -> None:
    """The end of a secret is set once, and once more if an overlap is cut short."""
    ends_at, before = datetime.fromisoformat(event.data["endsAt"]), row["ends_at"]
    require(ends_at >= event.at, "endsAt")
    require(before is None or ends_at == event.at < before, "its end was already set")


TOKENS = Table(
    model=Token,
    finding="tokens",
    desk=_desk_of("tokens"),
    key="public_id",
    named_by=_data("id"),
    ended_by="revoked_at",
    slot=lambda row: row["user_id"] or row["key"],  # a desk has one
    derived=lambda row: {"scopes": [READ] * row["can_read"] + [WRITE] * row["can_write"]},
    events={
        Kind.TOKEN_MINTED: Change(
            {
                "scope": lambda event, row: Scope.DESK if event.topic else Scope.PLATFORM,
                "user_id": lambda event, row: event.topic,
                "created_at": _at,
                "revoked_at": None,
            },
            begins=True,
        ),
        Kind.TOKEN_REVOKED: Change({"revoked_at": _at}),
    },
)
SECRETS = Table(
    model=SigningSecret,
    finding="secrets",
    desk=_desk_of("automations__secrets"),
    key="public_id",
    named_by=_data("id"),
    ended_by="ends_at",
    slot=itemgetter("owner"),
    derived=lambda row: {"owner": row["automation_id"] or row["source"]},
    events={
        Kind.SECRET_GENERATED: Change(
            {
                "source": lambda e, row: Source.TRADINGVIEW if e.topic else e.data["owner"],
                "automation_id": lambda event, row: event.topic and event.data["owner"],
                "created_at": _at,
                "ends_at": None,
            },
            check=_check_owner,
            begins=True,
        ),
        Kind.SECRET_ENDED: Change(
            reads=("endsAt",), check=_check_secrets_end, follows_the_end=True
        ),
    },
)

# --- Webhooks (what a runner changes is not in the log) -------------------------------------------


CHANGEABLE = ("name", "kinds", "bot", "url")  # in the order of the event's member ``changed``


def _check_webhook_change(owner: Owner, event: LoggedEvent, row: Row) -> None:
    changed = event.data["changed"]
    require(changed and changed == [one for one in CHANGEABLE if one in changed], "changed")
    for member in CHANGEABLE[:-1]:
        is_other = event.data.get(member, row[member]) != row[member]
        require((member in changed) == is_other, member)


def _change_url(event: LoggedEvent, row: Row) -> Row:
    if "url" not in event.data["changed"]:
        return {}
    state = row["state"] if row["state"] == State.PAUSED else State.UNVERIFIED
    new = {"state": state, "reason": None, "is_verified": False}
    return {**new, "revision": row["revision"] + 1}


def _verify(event: LoggedEvent, row: Row) -> Row:
    state = State.ACTIVE if row["state"] == State.UNVERIFIED else row["state"]
    return {"state": state, "is_verified": True}


def _resume(event: LoggedEvent, row: Row) -> Row:
    state = State.ACTIVE if row["is_verified"] else State.UNVERIFIED
    return {"state": state, "reason": None}


def _check_position(owner: Owner, event: LoggedEvent, row: Row) -> None:
    require(0 <= event.data["position"] < event.position, "position")
    skipped = event.data.get("skipped")
    require(skipped is None or skipped in range(1, MAX_LAG + 1), "skipped")


def _check_failing(owner: Owner, event: LoggedEvent, row: Row) -> None:
    since = datetime.fromisoformat(event.data["since"])
    least = timedelta(minutes=10 if row["state"] == State.UNVERIFIED else 15)
    require(event.data["since"] == to_rfc3339(since) and since <= event.at - least, "since")


def _check_failed_before(owner: Owner, event: LoggedEvent, row: Row) -> None:
    require(row["failing_told_at"], "no event told that it fails")


def _check_reason(owner: Owner, event: LoggedEvent, row: Row) -> None:
    require(event.data["reason"] in DisabledReason.values, "reason")


def _chosen(row: Row) -> Row:
    """What the owner chose, as the log has it: a group of kinds is stored with its kinds."""
    groups = tuple(kind.removesuffix("*") for kind in row["kinds"] if kind.endswith(".*"))
    single = [kind for kind in row["kinds"] if kind.endswith(".*") or not kind.startswith(groups)]
    return {"name": row["name"] or None, "kinds": single or None, "bot": row["bot"] or None}


def _end_secrets(owner: Owner, event: LoggedEvent, row: Row) -> None:
    """Without an overlap the secret in use is removed; one that was replaced before always is."""
    ends_at = event.at
    if event.kind == Kind.SUBSCRIPTION_SECRET_REPLACED:
        ends_at = datetime.fromisoformat(event.data["previousEndsAt"])
        is_exact = event.data["previousEndsAt"] == to_rfc3339(ends_at)
        require(is_exact and ends_at >= event.at, "previousEndsAt")
    secrets = owner.rows[WEBHOOK_SECRETS]
    for secret in [one for one in secrets.rows.values() if one["webhook"] == row["key"]]:
        is_removed = secret["ends_at"] is not None or ends_at == event.at
        secret["ends_at"] = ends_at
        if is_removed:
            secrets.remove(secret["key"])


WEBHOOKS = Table(
    model=Subscription,
    finding="subscriptions",
    desk=_desk_of("subscriptions"),
    key="public_id",
    named_by=_data("id"),
    ignored=("host",),
    later=("name", "bot"),
    derived=_chosen,
    events={
        Kind.SUBSCRIPTION_CREATED: Change(
            {
                "state": State.UNVERIFIED,
                "reason": None,
                "is_verified": False,
                "revision": 0,
                "failing_told_at": None,
            },
            checked=("secret",),
            begins=True,
        ),
        Kind.SUBSCRIPTION_VERIFIED: Change(_verify, needs={"is_verified": False}),
        Kind.SUBSCRIPTION_CHANGED: Change(
            _change_url, ("name", "kinds", "bot"), check=_check_webhook_change, checked=("changed",)
        ),
        Kind.SUBSCRIPTION_SECRET_REPLACED: Change(
            check=_end_secrets, checked=("secret", "previousEndsAt")
        ),
        Kind.SUBSCRIPTION_PAUSED: Change(
            {"state": State.PAUSED, "reason": None},
            needs={"state": (State.UNVERIFIED, State.ACTIVE, State.DISABLED)},
        ),
        Kind.SUBSCRIPTION_RESUMED: Change(_resume, needs={"state": (State.PAUSED, State.DISABLED)}),
        Kind.SUBSCRIPTION_REWOUND: Change(
            # What a runner delivers while events are skipped is delivered.
            {"revision": lambda event, row: row["revision"] + ("skipped" not in event.data)},
            check=_check_position,
            checked=("position", "skipped"),
        ),
        Kind.SUBSCRIPTION_FAILING: Change(
            {"failing_told_at": _at},
            needs={"failing_told_at": None, "state": (State.UNVERIFIED, State.ACTIVE)},
            check=_check_failing,
            checked=("since",),
        ),
        Kind.SUBSCRIPTION_WORKING: Change(
            {"failing_told_at": None}, needs={"state": State.ACTIVE}, check=_check_failed_before
        ),
        Kind.SUBSCRIPTION_DISABLED: Change(
            {"state": State.DISABLED}, ("reason",), {"state": State.ACTIVE}, check=_check_reason
        ),
        Kind.SUBSCRIPTION_REMOVED: Change(check=_end_secrets, removes=True),
    },
)
NEW_SECRET = Change(
    {"webhook": lambda event, row: event.data["id"], "created_at": _at, "ends_at": None},
    part="secret",
    begins=True,
)
WEBHOOK_SECRETS = Table(
    model=SubscriptionSecret,
    finding="webhook_secrets",
    desk=_desk_of("subscriptions__secrets"),
    key="public_id",
    named_by=lambda owner, event: event.data["secret"]["id"],
    ended_by="ends_at",
    slot=itemgetter("webhook"),
    events={
        Kind.SUBSCRIPTION_CREATED: NEW_SECRET,
        Kind.SUBSCRIPTION_SECRET_REPLACED: NEW_SECRET,
    },
)

# An event is applied in this order.
TABLES = (
    *(DESKS, CONNECTIONS, CARDS, BOTS, ELECTIONS),
    *(TOKENS, SECRETS, WEBHOOKS, WEBHOOK_SECRETS),
)

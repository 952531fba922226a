"""The audit's result: for each promise, how many things were checked and which ones break it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

# What code raises when it reads an event whose content was tampered with.
UNREADABLE = (KeyError, TypeError, ValueError, AttributeError)
MAX_EXAMPLES = 5  # breaches listed by name for each promise

# The command prints this list, so that nobody takes a clean audit for more than it is.
NOT_COVERED = (
    "users: email addresses, passwords, second factors, sessions, preferences, and which user owns "
    "a desk; who is staff, except that no owner of a desk is",
    "token digests, except that the key of each is configured, unless it is revoked or expired; "
    "what is encrypted, except that a configured key can read it",
    "when each token was last used",
    "the hosts of webhooks, and the keys with which requests made them",
    "what a runner changes of a webhook: its cursor, failures, next attempt, lease, tests, "
    "attempts and single events that are sent again; and the position to which its owner moved it, "
    "except that neither is beyond the end of the log",
    "the log's epoch, and its clock, except that the clock is not behind the last event",
    "internal row numbers",
    "the exact time of a disconnection, a withdrawal, a deactivation or the decision to end a "
    "secret: no table repeats it, so only its order among the other events is checked",
    "when the service looks next whether a bot is silent, the time zone of its trading days, and "
    "the position up to which it has looked for bots that were heard again, except that it is not "
    "beyond the end of the log",
    "notices that wait to be sent, which kinds of notice each user gets, which refusals and "
    "concerns had one, and the position up to which notices were written, except that it is not "
    "beyond the end of the log",
    "chats to which notices are sent, their messages and codes, except that a configured key can "
    "read the addresses",
    "which exports are being made",
    "how old a signal was when it arrived: what the sender says of it is not stored",
    "the order of unrelated events within one millisecond",
    "refused signals, and the actors of events other than signals: only the log has them",
    "tables, triggers and privileges that no migration makes; and on a standby, or in a database "
    "that a newer release has migrated, any part of the schema that this release does not need",
    "the same change made to both the log and a table, by somebody with write access to both",
)
# And this, if it went on from a position that an audit had proved.
PROVED_BEFORE = (
    "what events and signals say up to position {after:,}, which was proved before: compared were "
    "only their numbers, the last event and the nonces"
)


class AuditMismatchError(Exception):
    """The event cannot follow the ones before it. The message says what is wrong."""


def require(holds: object, what: str) -> None:
    """Raises ``AuditMismatchError(what)`` if ``holds`` is false."""
    if not holds:
        raise AuditMismatchError(what)


def require_same(logged: Mapping[str, object], expected: Mapping[str, object]) -> None:
    """Raises ``AuditMismatchError`` with the names of the members that differ."""
    different = [
        name
        for name in dict.fromkeys([*logged, *expected])
        if name not in logged or name not in expected or logged[name] != expected[name]
    ]
    require(not different, ", ".join(different))


@dataclass(slots=True)
class Finding:
    """One promise (``says``): ``count`` things were checked, and ``broken`` of them break it.

    ``first`` lists the first few breaches, by public id and column or member. It never holds
    a secret.
    """

    says: str
    count: int = 0
    broken: int = 0
    first: list[str] = field(default_factory=list)

    def breach(self, name: str, *what: str) -> None:
        """Records a breach: ``name`` identifies the thing, ``what`` lists its wrong members."""
        self.broken += 1
        if len(self.first) < MAX_EXAMPLES:
            self.first.append(f"{name} ({', '.join(what)})" if what else name)

    def check(self, name: str, check: Callable[[], None]) -> None:
        """Runs a check and records a breach if it fails, or if it cannot read the event."""
        try:
            check()
        except AuditMismatchError as mismatch:
            self.breach(name, str(mismatch))
        except UNREADABLE:
            self.breach(name, "unreadable")


class Findings:
    """The findings of every promise, in display order."""

    def __init__(self) -> None:
        self.schema = Finding(
            "schema: tables have exactly the columns, constraints and indexes of the migrations"
        )
        self.positions = Finding("events: positions run from 1 to the head without a gap")
        self.times = Finding("events: time never goes backwards")
        self.events = Finding(
            "events: each has the members of its kind and can follow the events before it"
        )
        self.desks = Finding("desks: rows match the log")
        self.connections = Finding("connections: rows match the log")
        self.cards = Finding(
            "cards: rows match the log, with the number of elections standing on each"
        )
        self.elections = Finding("elections: rows match the log")
        self.automations = Finding("bots: rows match the log")
        self.tokens = Finding("tokens: rows match the log")
        self.secrets = Finding("signing secrets: rows match the log")
        self.subscriptions = Finding("webhooks: rows match the log")
        self.webhook_secrets = Finding("webhooks: the rows of their secrets match the log")
        self.signals = Finding("signals: rows match the log, one event for each")
        self.credentials = Finding("signals: the credential of each was valid at its position")
        self.consent = Finding(
            "signals: each repeats a standing election and fills exactly the matching desks"
        )
        self.nonces = Finding("nonces: no signer used one twice")
        self.users = Finding("users: staff have every permission and no desk")
        self.places = Finding(
            "webhooks, notices and the watch for bots: none goes on beyond the end of the log"
        )
        self.digests = Finding(
            "tokens: the key of each digest is in TOKEN_KEYS, unless it is revoked or expired"
        )
        self.sealed = Finding("signing secrets: a key in SECRET_KEYS decrypts each")
        self.webhooks = Finding(
            "webhooks: a key in SECRET_KEYS decrypts each URL, secret and answer"
        )
        self.chats = Finding("chats: a key in SECRET_KEYS decrypts the address of each")
        self.factors = Finding("second factors: a key in SECRET_KEYS decrypts each")

    def __iter__(self) -> Iterator[Finding]:
        return iter(vars(self).values())

"""Webhooks, the secrets that sign their deliveries, and their latest attempts."""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Self

from django.db import models
from django.db.models import F, Q, Window
from django.db.models.functions import Now, RowNumber

from desks.ids import MAX_ID_LENGTH, new_subscription_id
from desks.models import Desk
from desks.visibility import desk_visibility
from events.feed import WHOLE_LOG, Ahead, Query, Visibility, kinds_ahead, read_at, serialize_event
from events.http.name_rules import MAX_NAME_LENGTH
from events.http.refusals import found_or_404
from events.kinds import GROUPS, Kind
from events.models import Event
from events.times import to_rfc3339
from signals.outbound.answers import Fault
from signals.webhooks.messages import Message, event_message
from tokens.crypto.keys import KeyLostError
from tokens.models.secret import NO_TEXT, Sealed, SealedSecret, SealedSecretQuerySet

MAX_ERROR_LENGTH = 32
MAX_HOST_LENGTH = 260  # a host name, a colon and a port
MAX_SHOWN_HOST = 60  # characters of a host in a sentence
MAX_OF_DESK, MAX_OF_PLATFORM = 5, 50
MAX_RESENDS = 50  # events that wait to be sent again by themselves
# How long a webhook must have failed before its owner is notified.
UNVERIFIED_FOR, FAILING_FOR = timedelta(minutes=10), timedelta(minutes=15)
MAX_LAG = 1000  # counting stops here: the lag is this or more


class State(models.TextChoices):
    """The stored state of a webhook. ``shown_state`` adds one that is not stored."""

    UNVERIFIED = "unverified"  # the URL has not answered a test
    ACTIVE = "active"
    PAUSED = "paused"
    DISABLED = "disabled"  # the service gave up; ``reason`` says why


# An active webhook whose last delivery failed.
FAILING = "failing"
SHOWN_STATES = (State.UNVERIFIED, State.ACTIVE, State.PAUSED, FAILING, State.DISABLED)


class DisabledReason(models.TextChoices):
    """Why the service disabled a webhook."""

    GONE = "gone"  # the endpoint answered 410
    FAILED = "failed"  # failures only, for too long
    CURSOR_LOST = "cursor_lost"  # the log was restored, and the cursor is of another epoch


def with_groups(chosen: Iterable[str]) -> list[str]:
    """Kinds and groups as they are stored: each once, and after the groups their kinds too.

    The release before this one delivers by the kinds, and knows no groups. Empty for all kinds.
    What only a later release knows comes last: without it a webhook would get all kinds.
    """
    named = dict.fromkeys(chosen)
    groups = [group for group in GROUPS if group in named]
    of_groups = {kind for group in groups for kind in GROUPS[group]}
    kinds = [kind.value for kind in Kind if kind in named or kind in of_groups]
    here = {*groups, *kinds}
    return [*groups, *kinds, *(name for name in named if name not in here)]


def without_groups(stored: Iterable[str]) -> list[str]:
    """What was chosen: the groups, and the kinds that are in none of them."""
    named = [*stored]
    of_groups = {kind for group in named for kind in GROUPS.get(group, ())}
    return [name for name in named if name not in of_groups]


def delivered(stored: Iterable[str]) -> list[str]:
    """The kinds that are delivered: also those that a group did not have when it was stored."""
    return [name for name in with_groups(stored) if name not in GROUPS]


class WebhookQuerySet(models.QuerySet["Subscription"]):
    def of_owner(self, desk: Desk | int | None) -> Self:
        """The webhooks of a desk, or the platform's if there is no desk."""
        return self.filter(desk=desk).select_related("desk")

    def named(self, public_id: str) -> "Subscription":
        """The one with this id. Raises ``NotFound``."""
        return found_or_404(self.filter(public_id=public_id).first(), "webhook")

    def hosts(self, public_ids: Iterable[str]) -> dict[str, str]:
        """The hosts by id. Removed webhooks have none."""
        return dict(self.filter(public_id__in=public_ids).values_list("public_id", "host"))

    def ready(self, now: datetime | Now) -> Self:
        """Those to which something may be sent now, and that no runner has leased."""
        is_free = Q(leased_until=None) | Q(leased_until__lte=now)
        may_try = Q(failures=0) | Q(next_attempt_at=None) | Q(next_attempt_at__lte=now)
        may_deliver = Q(not_before=None) | Q(not_before__lte=now)
        is_asked_for = Q(test_requested_at__isnull=False) | Q(resends__isnull=False)
        return self.filter(is_free, may_try, is_asked_for | Q(may_deliver, state=State.ACTIVE))

    def failing_for_long(self, now: datetime) -> Self:
        """Those of whose failures the log does not tell yet, and to which nothing is sent now."""
        unverified = Q(state=State.UNVERIFIED)
        active = Q(state=State.ACTIVE, failing_since__lte=now - FAILING_FOR)
        unnoticed = {"failing_told_at": None, "leased_until": None}
        return self.filter(
            unverified | active, failing_since__lte=now - UNVERIFIED_FOR, **unnoticed
        )

    def due(self, now: datetime | Now) -> Self:
        """Those that a runner has to look at without news."""
        return self.ready(now).filter(next_attempt_at__lte=now)


class Subscription(Sealed):
    """A webhook: a cursor of the log with a URL (contract, section 4).

    The sealed text is the URL. ``host`` is the part of it that pages show. ``desk`` is None for a
    webhook of the platform. ``name`` is its owner's name for it, or empty. ``kinds`` is empty if
    all kinds are delivered, otherwise as ``with_groups`` has it. ``bot`` is the id of the bot whose
    events alone are delivered, or empty.

    Two writers change a row. An action changes what the log tells, in a turn at the log. A runner
    changes what the log does not tell (the cursor, the failures, the lease) in a short transaction,
    where ``lease_generation`` is still its own. An action that makes what is in flight obsolete
    increments ``revision``: the outcome of a session that began with another one, or with another
    choice of events, changes nothing.
    """

    public_id = models.CharField(max_length=MAX_ID_LENGTH, default=new_subscription_id)
    desk = models.ForeignKey(
        "desks.Desk", models.PROTECT, null=True, db_index=False, related_name="subscriptions"
    )
    name = models.CharField(max_length=MAX_NAME_LENGTH, blank=True, default="", db_default="")
    host = models.CharField(max_length=MAX_HOST_LENGTH)
    kinds = models.JSONField(default=list)
    bot = models.CharField(max_length=MAX_ID_LENGTH, blank=True, default="", db_default="")
    state = models.CharField(max_length=10, choices=State, default=State.UNVERIFIED)
    reason = models.CharField(max_length=16, choices=DisabledReason, null=True)  # noqa: DJ001 - None: not disabled
    is_verified = models.BooleanField(default=False)  # whether this URL answered a test
    created_at = models.DateTimeField()
    revision = models.PositiveIntegerField(default=0)

    cursor_epoch = models.CharField(max_length=8)
    cursor_position = models.BigIntegerField()
    failures = models.PositiveIntegerField(default=0)  # in a row; of tests while unverified
    failing_since = models.DateTimeField(null=True)
    failing_told_at = models.DateTimeField(null=True)  # by the log, until it works again
    next_attempt_at = models.DateTimeField(null=True)  # None: when there is news
    not_before = models.DateTimeField(null=True)  # of an event: the endpoint's Retry-After
    test_requested_at = models.DateTimeField(null=True)
    last_test_at = models.DateTimeField(null=True)  # of this URL, as what follows
    last_test_status = models.PositiveSmallIntegerField(null=True)
    last_test_error = models.CharField(
        max_length=MAX_ERROR_LENGTH, blank=True, default="", db_default=""
    )
    # Positions of the events that wait to be sent again by themselves, in order; None: none.
    resends = models.JSONField(null=True)
    leased_until = models.DateTimeField(null=True)
    lease_generation = models.BigIntegerField(default=0)
    last_delivered_at = models.DateTimeField(null=True)
    last_status = models.PositiveSmallIntegerField(null=True)
    key_lost_at = models.DateTimeField(null=True)  # None: URL and secrets can be decrypted
    key_loss_told_at = models.DateTimeField(null=True)
    # Of its owner and the Idempotency-Key with which it was made.
    idempotency_digest = models.CharField(max_length=64, null=True)  # noqa: DJ001 - None: no key

    objects = WebhookQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        verbose_name = "webhook"  # in the control area, as on the pages
        indexes = [
            models.Index(
                fields=["next_attempt_at"],
                name="subscription_due",
                condition=Q(next_attempt_at__isnull=False),
            ),
            models.Index(
                fields=["failing_since"],
                name="subscription_failing",
                condition=Q(failing_since__isnull=False),
            ),
            models.Index(fields=["desk", "id"], name="subscription_owner"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["public_id"], name="subscription_public_id"),
            models.UniqueConstraint(fields=["idempotency_digest"], name="subscription_made_once"),
            models.CheckConstraint(
                condition=Q(state="disabled", reason__isnull=False)
                | ~Q(state="disabled") & Q(reason=None),
                name="subscription_is_disabled_for_a_reason",
            ),
            models.CheckConstraint(
                condition=~Q(state="active") | Q(is_verified=True),
                name="subscription_is_verified_before_it_is_active",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def label(self) -> str:
        """What sentences call it, after the word webhook: its name, if it has one, and its host."""
        return f"{self.name} to {self.shown_host}" if self.name else f"to {self.shown_host}"

    @property
    def shown_host(self) -> str:
        """The host in a sentence. Of a long one its end is shown, which says whose it is."""
        cut = self.host[-MAX_SHOWN_HOST:]
        return self.host if cut == self.host else f"...{cut}"

    @property
    def associated_data(self) -> str:
        return f"{self.public_id}:url"

    @property
    def topic(self) -> str | None:
        """The topic of the webhook's own events."""
        return self.desk.public_id if self.desk else None

    @property
    def is_platform(self) -> bool:
        return self.desk_id is None

    @property
    def visibility(self) -> Visibility:
        """The part of the log that is delivered: what the owner's token would see in the feed."""
        desk = Desk.objects.get(automations=self.bot) if self.bot and not self.desk else self.desk
        return desk_visibility(desk) if desk else lambda window: WHOLE_LOG

    def query(self, *, after: int, limit: int = MAX_LAG) -> Query:
        """What it gets next after a position."""
        having = {"bot_id": self.bot} if self.bot else {}
        return Query(after=after, kinds=delivered(self.kinds), having=having, limit=limit)

    def is_obsolete(self, earlier: "Subscription") -> bool:
        """Whether what was done with the row as it was earlier counts for nothing.

        After another choice of events it does too: events of the new one were passed over.
        """
        return self.revision != earlier.revision or self.query(after=0) != earlier.query(after=0)

    def ahead(self) -> Ahead:
        """What waits: at most one event more than ``MAX_LAG``."""
        return kinds_ahead(
            self.query(after=self.cursor_position, limit=MAX_LAG + 1), self.visibility
        )

    def event_at(self, position: int) -> Event | None:
        """The event at this position; None if there is none that its owner sees."""
        return read_at([position], self.visibility).get(position)

    def events_of(self, attempts: Iterable["DeliveryAttempt"]) -> dict[int, Event]:
        """The events that these attempts sent, by position, but none that its owner does not see.

        After a restore that lost events, another event can be at the position of one that was sent.
        """
        positions = {attempt.position for attempt in attempts if attempt.position is not None}
        return read_at(positions, self.visibility)

    def gets(self, event: Event) -> bool:
        """Whether an event that the owner sees is of the kinds, and of the bot, that it gets."""
        kinds = delivered(self.kinds)
        return (not kinds or event.kind in kinds) and (not self.bot or event.bot_id == self.bot)

    def message(self, event: Event, epoch: str) -> Message:
        """What is sent of an event, in a log of this epoch."""
        return event_message(serialize_event(event, platform=self.is_platform), epoch)

    @property
    def shown_state(self) -> str:
        """The state as the API and pages show it: one of ``SHOWN_STATES``."""
        is_failing = self.state == State.ACTIVE and self.failures
        return FAILING if is_failing else self.state

    @property
    def last_test_problem(self) -> str:
        """What went wrong with the latest test, as a sentence; empty if the status says it."""
        return problem_of(self.last_test_error)

    def lacks_key(self, now: datetime) -> bool:
        """Whether the URL or a secret that signs cannot be decrypted with the configured keys."""
        try:
            self.decrypt()
            for secret in self.secrets.live(now):
                secret.decrypt()
        except KeyLostError:
            return True
        return False

    @property
    def lag(self) -> int | None:
        """The number of events of its view that are not delivered yet, counted to ``MAX_LAG``.

        None if it has fewer among those that are examined, and there are more to examine.
        """
        ahead = self.ahead()
        count = min(len(ahead.kinds), MAX_LAG)
        return None if ahead.more and count < MAX_LAG else count


class SubscriptionSecret(SealedSecret):
    """A secret that signs a webhook's deliveries."""

    subscription = models.ForeignKey(Subscription, models.CASCADE, related_name="secrets")

    objects = SealedSecretQuerySet.as_manager()

    class Meta(SealedSecret.Meta):
        constraints = [
            models.UniqueConstraint(fields=["public_id"], name="subscription_secret_public_id"),
            models.UniqueConstraint(
                fields=["subscription"],
                condition=Q(ends_at=None),
                name="one_secret_in_use_of_a_subscription",
            ),
            models.CheckConstraint(
                condition=Q(ends_at=None) | Q(ends_at__gte=F("created_at")),
                name="subscription_secret_ends_after_it_is_made",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def associated_data(self) -> str:
        return f"{self.public_id}:{self.subscription.public_id}"


# --- Attempts -------------------------------------------------------------------------------------

# What is kept of a webhook's attempts.
MAX_ATTEMPTS, MAX_ANSWERS, MAX_ANSWER_BYTES = 50, 10, 1024
PROOF = (
    "It did not prove that it knows the secret: the body of the answer must be "
    '{"challenge": "…"} with the HMAC-SHA256 of the test\'s challenge in hex, as the code below '
    "answers it."
)


def problem_of(error: str) -> str:
    """What pages say of an attempt's error: a sentence, or nothing without one."""
    if error == Fault.UNPROVEN:
        return PROOF
    return Fault(error).label if error in Fault.values else ""


class DeliveryAttemptQuerySet(models.QuerySet["DeliveryAttempt"]):
    def trim(self, subscription_ids: Collection[int]) -> None:
        """Drops what is beyond the bounds of these webhooks, whose rows the caller has locked."""
        of_these = self.filter(subscription__in=subscription_ids)
        of_these._beyond(MAX_ATTEMPTS).delete()
        answers = of_these.exclude(key_id=NO_TEXT)._beyond(MAX_ANSWERS)
        answers.update(ciphertext=b"", key_id=NO_TEXT)

    def _beyond(self, count: int) -> Self:
        """All but the latest ``count`` of each webhook."""
        newest = Window(RowNumber(), partition_by=F("subscription"), order_by=F("id").desc())
        ranked = self.order_by().annotate(rank=newest).filter(rank__gt=count)
        return type(self)(self.model, using=self.db).filter(pk__in=ranked.values("pk"))


class DeliveryAttempt(Sealed):
    """One attempt to deliver: when, how long it took, and what the endpoint answered.

    The sealed text is the beginning of the answer to a failed attempt. An endpoint may repeat in it
    the path that it was called at. ``position`` is the event's, or None for a test. ``status`` is
    the HTTP status, or None without an answer: then ``error`` says what went wrong. Both are set if
    a test was answered without the proof that the endpoint knows the secret.
    """

    subscription = models.ForeignKey(
        Subscription, models.CASCADE, related_name="attempts", db_index=False
    )
    position = models.BigIntegerField(null=True)
    at = models.DateTimeField()
    milliseconds = models.PositiveIntegerField()
    status = models.PositiveSmallIntegerField(null=True)
    error = models.CharField(max_length=MAX_ERROR_LENGTH, default="")

    objects = DeliveryAttemptQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["subscription", "id"], name="attempt_subscription")]

    def __str__(self) -> str:
        return f"{self.subscription_id} at {self.at}"

    @property
    def associated_data(self) -> str:
        return f"{self.subscription.public_id}:{to_rfc3339(self.at)}"

    @property
    def is_success(self) -> bool:
        return not self.error and self.status is not None and 200 <= self.status < 300

    @property
    def event(self) -> str | None:
        """The id of the event; None for a test."""
        return None if self.position is None else f"evt_{self.position}"

    @property
    def problem(self) -> str:
        """What went wrong, as a sentence; empty if the status says it."""
        return problem_of(self.error)

    @property
    def answer(self) -> str:
        """The beginning of the answer; empty if none is kept."""
        try:
            return self.decrypt() if self.key_id else ""
        except KeyLostError:
            return "It cannot be decrypted any more."

    def keep_answer(self, body: bytes) -> None:
        """Seals the beginning of an answer. Does not save the row."""
        text = body[:MAX_ANSWER_BYTES].decode(errors="replace").replace("\0", "")
        if text:
            self.encrypt(text)

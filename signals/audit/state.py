"""What must hold of the log's positions and of the tables alone: one statement for each promise."""

from collections.abc import Callable, Iterator
from functools import partial

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.db import connection
from django.db.models import Count, F, Q, Window
from django.db.models.functions import Lag
from django.utils import timezone

from desks.models import Bookmark, Desk, User
from desks.models.chat import Chat
from events import database_schema
from events.feed import MAX_POSITION, read_head
from events.models import Event, Head
from signals.audit.findings import Finding, Findings
from signals.intake.models import Signal
from signals.webhooks.models import DeliveryAttempt, Subscription, SubscriptionSecret
from tokens.crypto import keys
from tokens.key_rotation import ENCRYPTED_FIELDS
from tokens.models import Sealed, SigningSecret, Token
from tokens.models.secret import NO_TEXT, decrypt


def check_schema(findings: Findings) -> None:
    """Checks the tables themselves, and names every difference.

    Call it outside a snapshot: it makes temporary tables to compare with.
    """
    findings.schema.count = len(database_schema.stored_models(connection))
    findings.schema.first = database_schema.differences(connection)
    findings.schema.broken = len(findings.schema.first)


def check_order(findings: Findings, after: int, upto: int | None) -> None:
    """Checks that the log has every position up to ``upto``, and that time never goes back.

    ``after`` is the position of an event that was proved, from which it goes on, or 0. Without
    ``upto`` it looks at the rest of the log.
    """
    before, at_before = (Window(Lag(name), order_by="position") for name in ("position", "at"))
    log = Event.objects.filter(position__gte=after, position__lte=upto or MAX_POSITION)
    events = log.order_by("position").annotate(before=before, at_before=at_before)
    events = events.filter(Q(before=None) | ~Q(position=F("before") + 1) | Q(at_before__gt=F("at")))
    for position, at, previous, at_previous in events.values_list(
        "position", "at", "before", "at_before"
    ).iterator():
        expected = (after or 1) if previous is None else previous + 1
        if position != expected:
            findings.positions.breach(f"evt_{expected}")
        if at_previous is not None and at_previous > at:
            findings.times.breach(f"evt_{position}")
    findings.positions.count = findings.times.count = findings.events.count


def check_head(findings: Findings) -> None:
    """Checks that the log's counter and clock are those of its last event."""
    head, last = read_head(), Event.objects.order_by("-position").first()
    if head.position != (last.position if last else 0):
        findings.positions.breach("head")
    if last and head.at < last.at:
        findings.times.breach("head")


def check_nonces(findings: Findings) -> None:
    """Groups as the index of nonces does, so that the database reads it and sorts nothing."""
    findings.nonces.count = Signal.objects.count()
    spent = Signal.objects.order_by().values("nonce", "signer").annotate(times=Count("*"))
    for twice in spent.filter(times__gt=1):
        signals = Signal.objects.spending(twice["signer"], twice["nonce"])
        findings.nonces.breach(signals.latest("position").public_id)


def check_users(findings: Findings) -> None:
    """The log does not tell who is staff, but staff have no desk."""
    findings.users.count = User.objects.count()
    of_staff = Desk.objects.filter(user__is_staff=True)
    for public_id in of_staff.values_list("public_id", flat=True):
        findings.users.breach(public_id, "its owner is staff")
    for user in User.objects.exclude(is_staff=F("is_superuser")):
        findings.users.breach(user.staff_id or f"user {user.pk}", "is_staff", "is_superuser")


def check_places(findings: Findings) -> None:
    """Where deliveries, notices and the watch go on. A position of another epoch is none here."""
    head = read_head()
    webhooks = Subscription.objects.filter(cursor_epoch=head.epoch)
    bookmarks = Bookmark.objects.filter(epoch=head.epoch)
    beyond = [
        *webhooks.filter(cursor_position__gt=head.position).values_list("public_id", flat=True),
        *(repr(mark.name) for mark in bookmarks.filter(position__gt=head.position)),
    ]
    findings.places.count = webhooks.count() + bookmarks.count()
    for name in beyond:
        findings.places.breach(name)


def check_keys(findings: Findings) -> None:
    """Checks the digest key of each active token, and decrypts each secret and second factor.

    A token that has expired needs no key: ``rotate_keys`` does not wait for it. As in a turn, the
    time is the later of the log's and the clock's, because nothing has to follow an expiry in the
    log. Only a signing secret that has ended by the log's time may have no text.
    """
    at = Head.objects.get().at
    tokens = Token.objects.active(max(at, timezone.now()))
    findings.digests.count = tokens.count()
    unknown = tokens.exclude(key_id__in=[keys.key_id(key) for key in settings.TOKEN_KEYS])
    for public_id in unknown.values_list("public_id", flat=True).iterator():
        findings.digests.breach(public_id)
    erased = Q(key_id=NO_TEXT, ends_at__lte=at)
    for secret in SigningSecret.objects.exclude(erased).order_by("pk").iterator():
        _check(findings.sealed, secret.public_id, secret.decrypt)
    for row in _of_webhooks():
        _check(findings.webhooks, str(row), row.decrypt)
    for chat in Chat.objects.order_by("pk").iterator():
        _check(findings.chats, chat.public_id, partial(decrypt, chat))
    for factor in Authenticator.objects.order_by("pk").iterator():
        encrypted = [factor.data[name] for name in ENCRYPTED_FIELDS if name in factor.data]
        _check(findings.factors, f"factor {factor.pk}", partial(_decrypt_each, encrypted))


def _of_webhooks() -> Iterator[Sealed]:
    """Every row that holds a text of a webhook subscription."""
    yield from Subscription.objects.order_by("pk").iterator()
    for model in (SubscriptionSecret, DeliveryAttempt):
        rows = model._default_manager.exclude(key_id=NO_TEXT).select_related("subscription")
        yield from rows.order_by("pk").iterator()


def _check(finding: Finding, name: str, decrypt: Callable[[], object]) -> None:
    finding.count += 1
    try:
        decrypt()
    except (keys.KeyLostError, ValueError):
        finding.breach(name)


def _decrypt_each(encrypted: list[str]) -> None:
    for text in encrypted:
        keys.decrypt_factor(text)

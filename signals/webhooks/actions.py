"""Actions that change a webhook, each one turn at the log with its event.

A secret and a URL are encrypted before the log's lock is taken. A secret's text is returned once,
and never stored. Events name neither URL nor host (contract, section 4, subscriptions).

The row's other writer, a runner, holds the row's lock for one short transaction and never waits for
the log meanwhile. So an action may update the row in its turn.
"""

from collections.abc import Sequence
from datetime import timedelta

from django.dispatch import receiver

from desks.actions import refuse_inactive
from desks.models import Desk
from events import log
from events.actors import SYSTEM, Actor
from events.feed import read_head
from events.http.cursors import log_position
from events.http.refusals import CursorLost, Invalid, NotFound
from events.kinds import Kind
from events.times import to_rfc3339
from signals.outbound.addresses import ForbiddenURL, check_url
from signals.webhooks.models import (
    MAX_OF_DESK,
    MAX_OF_PLATFORM,
    Reason,
    State,
    Subscription,
    SubscriptionSecret,
    WebhookQuerySet,
)
from tokens import notices
from tokens.actions import MAX_OVERLAP, desk_ends
from tokens.crypto import formats
from tokens.crypto.keys import KeyLostError

# No failure counts any more.
NO_FAILURES: dict[str, object] = {"failures": 0, "failing_since": None}


def create(
    *, desk: Desk | None, url: str, kinds: Sequence[str], actor: Actor
) -> tuple[str, Subscription]:
    """Adds a webhook of a desk, or of the platform; returns its secret's text and the record.

    It begins with the next event. A test is sent to the URL, and deliveries begin once the URL has
    answered one. ``kinds`` is empty for all kinds. Raises ``Invalid`` if the URL is not allowed or
    the owner has too many.
    """
    webhook = Subscription(desk=desk, kinds=list(kinds))
    _seal(webhook, url)
    text, secret = _new_secret(webhook)
    with log.turn(actor=actor) as turn:
        if desk is not None:
            refuse_inactive(desk)
        _refuse_too_many(desk)
        webhook.cursor_epoch = read_head().epoch
        webhook.cursor_position = turn.next_position()
        webhook.created_at = secret.created_at = turn.at
        webhook.test_requested_at = webhook.next_attempt_at = turn.at
        webhook.save(force_insert=True)
        secret.save(force_insert=True)
        append(turn, Kind.SUBSCRIPTION_CREATED, webhook, secret=secret.to_record())
        _notify(turn, webhook, f"A webhook to {webhook.host} was added.")
    return text, webhook


def change(
    *,
    webhook: Subscription,
    actor: Actor,
    url: str | None = None,
    kinds: Sequence[str] | None = None,
    paused: bool | None = None,
) -> Subscription:
    """Changes the URL, the kinds, whether it is paused, or several. Returns the record.

    A new URL must answer a test before anything is delivered to it.
    """
    new = Subscription(public_id=webhook.public_id)
    if url is not None:
        _seal(new, url)
    with log.turn(actor=actor) as turn:
        row = _current(webhook)
        changed = []
        if kinds is not None and list(kinds) != row.kinds:
            changed.append("kinds")
            update(row, kinds=list(kinds))
        if url is not None and _differ(row, new):
            changed.append("url")
            _replace_url(turn, row, new)
        if changed:
            append(turn, Kind.SUBSCRIPTION_CHANGED, row, changed=changed)
        if paused is not None:
            act = pause if paused else resume
            row = act(webhook=row, actor=actor)
    return row


def pause(*, webhook: Subscription, actor: Actor) -> Subscription:
    """Pauses a webhook. What is in flight may still arrive. Pausing again changes nothing."""
    with log.turn(actor=actor) as turn:
        row = _current(webhook)
        if row.state != State.PAUSED:
            update(row, state=State.PAUSED, reason=None, **NO_FAILURES)
            append(turn, Kind.SUBSCRIPTION_PAUSED, row)
    return row


def resume(*, webhook: Subscription, actor: Actor) -> Subscription:
    """Resumes a paused or disabled webhook at its cursor. Nothing is lost.

    Raises ``CursorLost`` if the cursor is of another epoch: rewind it first.
    """
    with log.turn(actor=actor) as turn:
        row = _current(webhook)
        if row.state in (State.PAUSED, State.DISABLED):
            if row.cursor_epoch != read_head().epoch:
                raise CursorLost
            update(
                row,
                state=State.ACTIVE if row.is_verified else State.UNVERIFIED,
                reason=None,
                next_attempt_at=turn.at,
                test_requested_at=row.test_requested_at if row.is_verified else turn.at,
                **NO_FAILURES,
            )
            append(turn, Kind.SUBSCRIPTION_RESUMED, row)
    return row


def rewind(*, webhook: Subscription, after: str, actor: Actor) -> Subscription:
    """Moves the cursor: back, to send everything after it again, or forward, to skip.

    Raises ``Invalid`` or ``CursorLost`` as the feed does.
    """
    with log.turn(actor=actor) as turn:
        row, head = _current(webhook), read_head()
        position = log_position(after, head.epoch, turn.position - 1)
        update(
            row,
            cursor_epoch=head.epoch,
            cursor_position=position,
            revision=row.revision + 1,
            next_attempt_at=turn.at,
            **NO_FAILURES,
        )
        append(turn, Kind.SUBSCRIPTION_REWOUND, row, position=position)
    return row


def replace_secret(
    *, webhook: Subscription, actor: Actor, overlap: timedelta = timedelta(0)
) -> tuple[str, Subscription]:
    """Replaces the secret; returns the new one's text and the webhook's record.

    Deliveries are signed with the old one too for ``overlap`` (at most seven days). A secret that
    is already in an overlap ends now.
    """
    if not timedelta(0) <= overlap <= MAX_OVERLAP:
        raise Invalid.field("overlap", "range", "Choose an overlap of at most seven days.")
    text, secret = _new_secret(webhook)
    with log.turn(actor=actor) as turn:
        row = _current(webhook)
        secret.created_at = turn.at
        previous_ends_at = turn.at + overlap
        live = SubscriptionSecret.objects.filter(subscription=row)
        live.exclude(ends_at=None).delete()
        if overlap:
            live.update(ends_at=previous_ends_at)
        else:
            live.delete()
        secret.save(force_insert=True)
        if row.key_lost_at:
            update(row, next_attempt_at=turn.at)
        append(
            turn,
            Kind.SUBSCRIPTION_SECRET_REPLACED,
            row,
            secret=secret.to_record(),
            previousEndsAt=to_rfc3339(previous_ends_at),
        )
        _notify(turn, row, f"The secret of a webhook to {row.host} was replaced: {secret.hint}.")
    return text, row


def remove(*, webhook: Subscription, actor: Actor) -> None:
    """Removes a webhook, with its URL, its secrets and its attempts.

    One that is removed already takes no turn at the log.
    """
    rows = Subscription.objects.filter(pk=webhook.pk)
    if rows.exists():
        with log.turn(actor=actor) as turn:
            remove_rows(turn, rows.all())


def remove_rows(turn: log.Turn, webhooks: WebhookQuerySet) -> None:
    """Removes webhooks. Needs the caller's turn at the log."""
    # The lock keeps runners from adding attempts to rows that are about to be deleted.
    rows = list(webhooks.select_related("desk").select_for_update(of=("self",)))
    Subscription.objects.filter(pk__in=[row.pk for row in rows]).delete()
    for row in rows:
        append(turn, Kind.SUBSCRIPTION_REMOVED, row)
        _notify(turn, row, f"A webhook to {row.host} was removed.")


@receiver(desk_ends)
def remove_all(sender: object, desk: Desk, turn: log.Turn, **options: object) -> None:
    """Removes the webhooks of a desk that ends, in the turn that ends it."""
    remove_rows(turn, Subscription.objects.of_owner(desk))


def request_test(*, webhook: Subscription) -> Subscription:
    """Asks a runner to send a test to the URL. Nothing is sent here, and the log tells nothing."""
    with log.turn(actor=None) as turn:
        row = _current(webhook)
        update(row, test_requested_at=turn.at, next_attempt_at=turn.at)
    return row


# --- What a runner found out of the row as it leased it ------------------------------------------


def verify(*, webhook: Subscription) -> bool:
    """Notes that the URL answered a signed test. An unverified webhook becomes active.

    ``webhook`` is the row as the runner leased it. Returns False if it changed since.
    """
    with log.turn(actor=SYSTEM) as turn:
        row = _as_leased(webhook)
        if row is None:
            return False
        if row.is_verified:
            return True
        update(row, is_verified=True)
        if row.state == State.UNVERIFIED:
            update(row, state=State.ACTIVE, next_attempt_at=turn.at)
        append(turn, Kind.SUBSCRIPTION_VERIFIED, row)
    return True


def disable(*, webhook: Subscription, reason: Reason) -> bool:
    """Disables an active webhook: the service gives up until its owner resumes it.

    ``webhook`` is the row as the runner leased it. Returns False if it changed since.
    """
    with log.turn(actor=SYSTEM) as turn:
        row = _as_leased(webhook)
        if row is None or row.state != State.ACTIVE:
            return False
        update(row, state=State.DISABLED, reason=reason, next_attempt_at=None)
        append(turn, Kind.SUBSCRIPTION_DISABLED, row)
    return True


def _as_leased(webhook: Subscription) -> Subscription | None:
    """The row, if it still has the lease and the URL that it was read with."""
    same = {name: getattr(webhook, name) for name in ("lease_generation", "revision")}
    rows = Subscription.objects.select_related("desk").filter(pk=webhook.pk, **same)
    return rows.first()


# --- Parts of actions -----------------------------------------------------------------------------


def _seal(webhook: Subscription, url: str) -> None:
    """Encrypts the URL in its one form. Raises ``Invalid`` if it is not allowed."""
    try:
        target = check_url(url)
    except ForbiddenURL as error:
        raise Invalid.field("url", error.code, error.sentence) from None
    webhook.host = target.authority
    webhook.encrypt(target.url)


def _differ(row: Subscription, new: Subscription) -> bool:
    """Whether the URLs differ. One whose key was lost differs from any."""
    try:
        return row.decrypt() != new.decrypt()
    except KeyLostError:
        return True


def _replace_url(turn: log.Turn, row: Subscription, new: Subscription) -> None:
    """Replaces the URL. What is in flight to the old one counts for nothing."""
    update(
        row,
        ciphertext=new.ciphertext,
        key_id=new.key_id,
        host=new.host,
        is_verified=False,
        state=State.PAUSED if row.state == State.PAUSED else State.UNVERIFIED,
        reason=None,
        revision=row.revision + 1,
        test_requested_at=turn.at,
        next_attempt_at=turn.at,
        **NO_FAILURES,
    )
    _notify(turn, row, f"The URL of a webhook was changed. It now leads to {row.host}.")


def _new_secret(webhook: Subscription) -> tuple[str, SubscriptionSecret]:
    text = formats.new_webhook_secret()
    secret = SubscriptionSecret(subscription=webhook, hint=formats.hint(text))
    secret.encrypt(text)
    return text, secret


def _notify(turn: log.Turn, webhook: Subscription, sentence: str) -> None:
    notices.notify_owner(turn, webhook.desk, sentence)


def _refuse_too_many(desk: Desk | None) -> None:
    """Raises ``Invalid`` if the desk, or the platform, has as many webhooks as it may have."""
    most = MAX_OF_PLATFORM if desk is None else MAX_OF_DESK
    if Subscription.objects.of_owner(desk).count() >= most:
        whose = "The platform" if desk is None else "A desk"
        raise Invalid(f"{whose} has at most {most} webhooks. Remove one first.")


def _current(webhook: Subscription) -> Subscription:
    """The row as it is under the log's lock. Raises ``NotFound`` if it was removed."""
    row = Subscription.objects.select_related("desk").filter(pk=webhook.pk).first()
    if row is None:
        raise NotFound
    return row


def update(row: Subscription, **changed: object) -> None:
    """Changes these columns only: a runner may change others at the same time."""
    for name, value in changed.items():
        setattr(row, name, value)
    Subscription.objects.filter(pk=row.pk).update(**changed)


def append(turn: log.Turn, kind: Kind, webhook: Subscription, **more: object) -> None:
    """Writes an event with the webhook's record after the change, and what else it tells."""
    data = {**webhook.as_event_data(), **more}
    turn.append(kind, topic=webhook.topic, data=data)

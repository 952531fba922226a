"""Actions that change a webhook, each one turn at the log with its event.

A secret and a URL are encrypted before the log's lock is taken. A secret's text is returned once,
and never stored. Events name neither URL nor host (contract, section 4, subscriptions).

The row's other writer, a runner, holds the row's lock for one short transaction and never waits for
the log meanwhile. So an action may lock and update the row in its turn.
"""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from django.db.models import prefetch_related_objects
from django.dispatch import receiver
from django.utils import timezone

from desks.actions import refuse_inactive
from desks.models import Automation, Desk
from events import log
from events.actors import SYSTEM, Actor
from events.feed import first_positions, read_head, read_identity, read_page
from events.http.cursors import log_position
from events.http.name_rules import require_name
from events.http.refusals import CursorLost, FieldCode, IdempotencyKeyReused, Invalid, NotFound
from events.kinds import Kind
from events.times import to_rfc3339
from signals.outbound.addresses import ForbiddenURL, check_url
from signals.webhooks.models import (
    MAX_ATTEMPTS,
    MAX_LAG,
    MAX_OF_DESK,
    MAX_OF_PLATFORM,
    MAX_RESENDS,
    DeliveryAttempt,
    DisabledReason,
    State,
    Subscription,
    SubscriptionSecret,
    WebhookQuerySet,
    with_groups,
    without_groups,
)
from signals.webhooks.records import event_data, secret_record
from tokens import notices
from tokens.actions import MAX_OVERLAP, desk_ends
from tokens.crypto import formats
from tokens.crypto.keys import KeyLostError

MAX_PER_TURN = 20  # webhooks
UNKNOWN_BOT = "Send the id of a bot that exists and is not removed."
LEFT_BEHIND = (
    "A restore of the log has left this webhook behind. Send events again from a time, or skip "
    "what waits. Then resume it."
)
# No failure counts any more.
NO_FAILURES: dict[str, object] = {"failures": 0, "failing_since": None, "not_before": None}


def create(
    *,
    desk: Desk | None,
    url: str,
    actor: Actor,
    name: str = "",
    kinds: Sequence[str] = (),
    bot: str = "",
    idempotency_key: str | None = None,
) -> tuple[str, Subscription]:
    """Adds a webhook of a desk, or of the platform; returns its secret's text and the record.

    It begins with the next event. A test is sent to the URL, and deliveries begin once the URL has
    answered one. ``kinds`` are kinds and groups, empty for all, and ``name`` is empty for none. An
    empty ``bot`` is no limit to the events of one. Raises ``Invalid`` if the URL is not allowed,
    the owner has too many, or there is no such bot.

    If the owner has a webhook that was made with the same ``idempotency_key``, that one is returned
    without the secret's text. Raises ``IdempotencyKeyReused`` if it differs.
    """
    require_name(name)
    webhook = Subscription(desk=desk, name=name, kinds=with_groups(kinds), bot=bot)
    _seal(webhook, url)
    if idempotency_key is not None:
        owned = f"{webhook.topic} {idempotency_key}"
        webhook.idempotency_digest = hashlib.sha256(owned.encode()).hexdigest()
    text, secret = _new_secret(webhook)
    prefetch_related_objects([webhook], "desk__user")  # not under the log's lock
    with log.turn(actor=actor) as turn:
        if desk is not None:
            refuse_inactive(desk)
        # Before the next checks: a repeated request succeeds although the owner has too many by
        # now, or the bot is gone.
        if made := _made_before(webhook):
            return "", made
        _refuse_unknown(bot, desk)
        _refuse_too_many(desk)
        webhook.cursor_epoch = read_head().epoch
        webhook.cursor_position = turn.position
        webhook.created_at = secret.created_at = turn.at
        webhook.test_requested_at = webhook.next_attempt_at = turn.at
        webhook.save(force_insert=True)
        secret.save(force_insert=True)
        append(turn, Kind.SUBSCRIPTION_CREATED, webhook, secret=secret_record(secret))
        notices.notify_owner(
            turn,
            webhook.desk,
            f"A webhook {webhook.label} was added.",
            f"A webhook to {webhook.shown_host} was added to your desk",
        )
    return text, webhook


def change(
    *,
    webhook: Subscription,
    actor: Actor,
    name: str | None = None,
    url: str | None = None,
    kinds: Sequence[str] | None = None,
    bot: str | None = None,
    paused: bool | None = None,
) -> Subscription:
    """Changes what is not None, and whether it is paused. Returns the record.

    As in ``create``, an empty value stands for no name, all kinds, or no limit to the events of
    a bot. A new URL must answer a test before anything is delivered to it.
    """
    require_name(name or "")
    new = Subscription(public_id=webhook.public_id)
    if url is not None:
        _seal(new, url)
    with log.turn(actor=actor) as turn:
        row = _current(webhook)
        # In the order of ``CHANGEABLE``, which events keep. The name comes before the URL, whose
        # notice says it.
        changed = []
        if name is not None and name != row.name:
            changed.append("name")
            update(row, name=name)
        if kinds is not None and without_groups(with_groups(kinds)) != without_groups(row.kinds):
            changed.append("kinds")
            update(row, kinds=with_groups(kinds))
        if bot is not None and bot != row.bot:
            _refuse_unknown(bot, row.desk)
            changed.append("bot")
            update(row, bot=bot)
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
                raise CursorLost(LEFT_BEHIND)
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
    """Moves the cursor, as ``move`` does, to that of the feed in ``after``.

    Raises ``Invalid`` or ``CursorLost`` as the feed does.
    """
    with log.turn(actor=actor) as turn:
        row, head = _current(webhook), read_head()
        position = log_position(after, head.epoch, turn.position - 1, read_identity)
        _move(turn, row, head.epoch, position, NO_FAILURES, position=position)
    return row


def move(*, webhook: Subscription, position: int, actor: Actor, may_skip: bool) -> Subscription:
    """Moves the cursor: back, to send what follows again, or forward, to skip.

    Unless it ``may_skip``, it does not go forward: a cursor that is before the position stays
    there, and what waits is sent first. One of another epoch is moved in any case, because its
    place is lost. Raises ``CursorLost`` beyond the end of the log.
    """
    with log.turn(actor=actor) as turn:
        row, head = _current(webhook), read_head()
        if position >= turn.position:
            raise CursorLost
        if not may_skip and row.cursor_epoch == head.epoch:
            position = min(position, row.cursor_position)
        _move(turn, row, head.epoch, position, NO_FAILURES, position=position)
    return row


def replay(*, webhook: Subscription, since: datetime, actor: Actor) -> Subscription:
    """Moves the cursor so that the next event is the first that is not before ``since``.

    That can skip what waits. Raises ``Invalid`` for a time in the future.
    """
    position = last_before(since)
    return move(webhook=webhook, position=position, actor=actor, may_skip=True)


def last_before(since: datetime) -> int:
    """The position of the last event before this time. Raises ``Invalid`` for a future one."""
    if since > timezone.now():
        raise Invalid.field("since", FieldCode.RANGE, "Send a time in the past.")
    (first,) = first_positions([since])
    return first - 1


def skip(*, webhook: Subscription, actor: Actor, until: int) -> int | None:
    """Skips what waits up to this position, as a move of the cursor.

    Returns the number of these events, counted to one more than ``MAX_LAG``: None if they were not
    all found, or if the cursor is lost. What was delivered meanwhile is not sent again. If nothing
    waits, nothing changes. If nothing is found and more may wait, only the cursor moves. The next
    event is tried at once, but the failures stay: that something is skipped mends nothing.
    """
    ahead = webhook.ahead()
    is_counted = ahead.examined >= until or not ahead.more
    with log.turn(actor=actor) as turn:
        row, head = _current(webhook), read_head()
        # If nothing else waits, the event of the skip itself shall not wait either.
        cursor = until if _has_more(row, until) else turn.position
        if row.cursor_epoch != head.epoch:
            _move(turn, row, head.epoch, cursor, {"not_before": None}, position=until)
            return None
        if row.is_obsolete(webhook):
            return 0  # something else waits now
        left = [position for position in ahead.kinds if row.cursor_position < position <= until]
        if is_counted and not left:
            if ahead.more:  # the next look begins where this one ended
                update(row, cursor_position=max(row.cursor_position, until))
            return 0
        cursor = max(row.cursor_position, cursor)
        if not is_counted and len(left) <= MAX_LAG:
            _move(turn, row, head.epoch, cursor, {"not_before": None}, position=until)
            return None
        # The revision stays: what a runner delivers meanwhile is delivered.
        update(row, cursor_position=cursor, not_before=None, next_attempt_at=turn.at)
        skipped = len(left) if len(left) <= MAX_LAG else None
        append(turn, Kind.SUBSCRIPTION_REWOUND, row, position=until, skipped=skipped)
    return len(left)


def _has_more(row: Subscription, after: int) -> bool:
    """Whether an event waits after this position, or a page of the feed does not show it."""
    page = read_page(row.query(after=after, limit=1), row.visibility)
    return bool(page.events) or page.more


def next_position(webhook: Subscription) -> int:
    """The position of the event that is delivered next, or the last that was examined."""
    ahead = webhook.ahead()
    return next(iter(ahead.kinds), ahead.examined)


def replace_secret(
    *, webhook: Subscription, actor: Actor, overlap: timedelta = timedelta(0)
) -> tuple[str, Subscription]:
    """Replaces the secret; returns the new one's text and the webhook's record.

    Deliveries are signed with the old one too for ``overlap`` (at most seven days). A secret that
    is already in an overlap ends now.
    """
    if not timedelta(0) <= overlap <= MAX_OVERLAP:
        raise Invalid.field("overlap", FieldCode.RANGE, "Choose an overlap of at most seven days.")
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
            secret=secret_record(secret),
            previousEndsAt=to_rfc3339(previous_ends_at),
        )
        notices.notify_owner(
            turn,
            row.desk,
            f"The secret of a webhook {row.label} was replaced: {secret.hint}.",
            f"The secret of a webhook to {row.shown_host} was replaced",
        )
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
    rows = list(webhooks.select_related("desk__user").select_for_update(of=("self",)))
    Subscription.objects.filter(pk__in=[row.pk for row in rows]).delete()
    for row in rows:
        append(turn, Kind.SUBSCRIPTION_REMOVED, row)
        notices.notify_owner(
            turn,
            row.desk,
            f"A webhook {row.label} was removed.",
            f"A webhook to {row.shown_host} was removed from your desk",
        )


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


def resend(*, webhook: Subscription, position: int) -> Subscription:
    """Asks a runner to send one event again, out of order: the cursor stays.

    As a test, it is sent once, whatever the state, and no event of the log. Raises ``NotFound``
    if the owner does not see the event, and ``Invalid`` if the URL never answered a test or too
    many wait.
    """
    if webhook.event_at(position) is None:
        raise NotFound("The event does not exist, or you have no access to it.")
    return _add_resends(webhook, [position])


def resend_failed(*, webhook: Subscription, since: datetime) -> int:
    """Asks a runner to send again the events whose latest attempt failed, at this time or later.

    It looks at the attempts that are kept. Each event that the owner still sees is sent once, as in
    ``resend``, in the order of the log. Returns how many. Raises ``Invalid`` as ``resend`` does.
    """
    kept = list(webhook.attempts.exclude(position=None)[:MAX_ATTEMPTS])
    latest = {attempt.position: attempt for attempt in reversed(kept)}
    failed = sorted(
        webhook.events_of(
            attempt for attempt in latest.values() if attempt.at >= since and not attempt.is_success
        )
    )
    if failed:
        _add_resends(webhook, failed)
    return len(failed)


def _add_resends(webhook: Subscription, positions: Sequence[int]) -> Subscription:
    """Adds events to those that wait to be sent again."""
    with log.turn(actor=None) as turn:
        row = _current(webhook)  # a runner takes from the list what it has sent
        if not row.is_verified:
            raise Invalid("The URL must answer a test before an event is sent to it.")
        waiting = row.resends or []
        # What a runner may be sending is sent again after it: the request may have come too late.
        most = 1 if row.leased_until is None else 2
        waiting += [position for position in positions if waiting.count(position) < most]
        if len(waiting) > MAX_RESENDS:
            raise Invalid(f"At most {MAX_RESENDS} events wait to be sent again. Try again later.")
        update(row, resends=waiting, next_attempt_at=turn.at)
    return row


def last_test_columns(attempt: DeliveryAttempt) -> dict[str, object]:
    """What the row says of the latest test of its URL."""
    return {
        "last_test_at": attempt.at,
        "last_test_status": attempt.status,
        "last_test_error": attempt.error,
    }


# --- What a runner found out of the row as it leased it ------------------------------------------


def verify(*, webhook: Subscription, test: DeliveryAttempt | None = None) -> bool:
    """Notes that the URL answered a signed test. An unverified webhook becomes active.

    ``webhook`` is the row as the runner leased it. Returns False if it changed since. ``test`` is
    saved with it, so that nobody sees a webhook that is active without its latest test.
    """
    with log.turn(actor=SYSTEM) as turn:
        row = _as_leased(webhook)
        if row is None:
            return False
        if row.is_verified:
            return True
        update(row, is_verified=True, **(last_test_columns(test) if test else {}))
        if row.state == State.UNVERIFIED:
            # What the endpoint asked for last still holds.
            begins = {"next_attempt_at": max(turn.at, row.not_before or turn.at)}
            update(row, state=State.ACTIVE, failures=0, failing_since=None, **begins)
        append(turn, Kind.SUBSCRIPTION_VERIFIED, row)
        if row.state == State.ACTIVE:
            _note_that_it_works(turn, row)
    return True


def note_that_it_works(*, webhook: Subscription) -> None:
    """Notes that an event was delivered to a webhook whose failures are in the log.

    ``webhook`` is the row as the runner leased it. Nothing is noted if it changed since.
    """
    with log.turn(actor=SYSTEM) as turn:
        if row := _as_leased(webhook):
            _note_that_it_works(turn, row)


def _note_that_it_works(turn: log.Turn, row: Subscription) -> None:
    if row.failing_told_at:
        update(row, failing_told_at=None)
        append(turn, Kind.SUBSCRIPTION_WORKING, row)


def note_failing(now: datetime) -> bool:
    """Notes, once, which webhooks have failed for long. Returns whether there may be more."""
    failing = Subscription.objects.failing_for_long(now).order_by("failing_since")
    rows = list(failing.select_related("desk")[:MAX_PER_TURN])
    if rows:
        with log.turn(actor=SYSTEM) as turn:
            for row in rows:
                # A runner that leased it since may be delivering, and reads this column no more.
                same = {
                    name: getattr(row, name) for name in ("lease_generation", "revision", "state")
                }
                current = Subscription.objects.failing_for_long(now).filter(pk=row.pk, **same)
                if current.update(failing_told_at=turn.at):
                    since = to_rfc3339(row.failing_since)
                    append(turn, Kind.SUBSCRIPTION_FAILING, row, since=since)
    return len(rows) == MAX_PER_TURN


def disable(*, webhook: Subscription, reason: DisabledReason) -> bool:
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
        raise Invalid.field("url", error.field_code, error.sentence) from None
    webhook.host = target.authority
    webhook.encrypt(target.url)


def _made_before(new: Subscription) -> Subscription | None:
    """The webhook that was made with the same key. Raises ``IdempotencyKeyReused``."""
    if new.idempotency_digest is None:
        return None
    same_key = Subscription.objects.filter(idempotency_digest=new.idempotency_digest)
    row = same_key.select_related("desk").first()
    if row and (_settings(row) != _settings(new) or _differ(row, new)):
        raise IdempotencyKeyReused
    return row


def _settings(webhook: Subscription) -> tuple[object, ...]:
    """What its owner chose, but for the URL."""
    return webhook.name, without_groups(webhook.kinds), webhook.bot


def _differ(row: Subscription, new: Subscription) -> bool:
    """Whether the URLs differ. One whose key was lost differs from any."""
    try:
        return row.decrypt() != new.decrypt()
    except KeyLostError:
        return True


def _move(
    turn: log.Turn,
    row: Subscription,
    epoch: str,
    cursor: int,
    columns: Mapping[str, object],
    *,
    position: int,
) -> None:
    """Moves the cursor, and changes these columns too. What is in flight counts for nothing.

    ``position`` is what the event says.
    """
    update(
        row,
        cursor_epoch=epoch,
        cursor_position=cursor,
        revision=row.revision + 1,
        next_attempt_at=turn.at,
        **columns,
    )
    append(turn, Kind.SUBSCRIPTION_REWOUND, row, position=position)


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
        resends=None,
        last_test_at=None,
        last_test_status=None,
        last_test_error="",
        **NO_FAILURES,
    )
    named = f"the webhook {row.name}" if row.name else "a webhook"
    notices.notify_owner(
        turn,
        row.desk,
        f"The URL of {named} was changed. It now leads to {row.shown_host}.",
        f"A webhook of your desk now leads to {row.shown_host}",
    )


def _new_secret(webhook: Subscription) -> tuple[str, SubscriptionSecret]:
    text = formats.new_webhook_secret()
    secret = SubscriptionSecret(subscription=webhook, hint=formats.hint(text))
    secret.encrypt(text)
    return text, secret


def _refuse_too_many(desk: Desk | None) -> None:
    """Raises ``Invalid`` if the desk, or the platform, has as many webhooks as it may have."""
    most = MAX_OF_PLATFORM if desk is None else MAX_OF_DESK
    if Subscription.objects.of_owner(desk).count() >= most:
        whose = "The platform" if desk is None else "A desk"
        raise Invalid(f"{whose} has at most {most} webhooks. Remove one first.")


def _refuse_unknown(bot: str, desk: Desk | None) -> None:
    """Raises ``Invalid`` unless the desk has this bot; for the platform, any desk."""
    bots = Automation.objects.not_removed().filter(pk=bot)
    if bot and not (bots.filter(desk=desk) if desk else bots).exists():
        raise Invalid.field("botId", FieldCode.CHOICE, UNKNOWN_BOT)


def _current(webhook: Subscription) -> Subscription:
    """The row as it is under the log's lock, locked: no runner saves meanwhile what it has sent.

    Raises ``NotFound`` if it was removed.
    """
    rows = Subscription.objects.filter(pk=webhook.pk).select_for_update(of=("self",))
    row = rows.select_related("desk__user").first()
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
    data = {**event_data(webhook), **more}
    turn.append(kind, topic=webhook.topic, data=data)

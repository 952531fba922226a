"""Minting and revoking tokens, generating and ending signing secrets.

A credential's value is generated, digested or encrypted before the log's lock is taken. The owner,
who gets the notice, is read before it too. The value is returned once, with its record, and is
never stored (contract, section 2).
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import QuerySet, prefetch_related_objects
from django.dispatch import Signal
from django.utils import timezone

from desks import actions as desks
from desks.actions import refuse_inactive, refuse_removed, remove_bots
from desks.event_data import WithdrawalReason
from desks.models import Automation, Desk
from events import log
from events.actors import Actor, ActorType
from events.http.name_rules import require_name
from events.http.refusals import FieldCode, Invalid, TokenInvalid
from events.kinds import Kind
from events.times import to_rfc3339, truncate_to_milliseconds
from tokens import notices
from tokens.callers import credential_cache
from tokens.choices import Scope, Source
from tokens.crypto import formats, keys
from tokens.models import SigningSecret, Token
from tokens.models.token import READ, WRITE

MAX_OVERLAP = timedelta(days=7)
DESK_TOKEN_NAME = "Desk token"  # noqa: S105 - a label
OTHER_TOKEN = "Another desk token was minted since you opened this page."  # noqa: S105 - a text

# Sent in the turn that deactivates a desk or closes an account, before the event that says so. Its
# arguments are the ``desk`` and the ``turn``. A receiver in ``signals`` ends what the desk
# owns there and appends the events, with a number of statements that does not depend on how much
# there is.
desk_ends = Signal()


def mint_desk_token(
    *, desk: Desk, actor: Actor, name: str = DESK_TOKEN_NAME, replaces: str | None = None
) -> tuple[str, Token]:
    """Mints the desk's token, revokes the previous one, and returns the value and the record.

    ``replaces`` is the id of the token that the caller agreed to replace, empty for none. Raises
    ``Invalid`` if it is given and the desk has another token by now.
    """
    value = formats.new(formats.DESK_TOKEN)
    token = _new_token(value, scope=Scope.DESK, desk=desk, name=name, can_read=True)
    prefetch_related_objects([desk], "user")
    with log.turn(actor=actor) as turn:
        refuse_inactive(desk)
        if replaces is not None and _live(desk).exclude(public_id=replaces).exists():
            raise Invalid(f"{OTHER_TOKEN} Check again what is replaced.")
        _revoke_all(desk, actor)
        _save(turn, token)
    return value, token


def mint_platform_token(
    *, name: str, scopes: list[str], actor: Actor, expires_at: datetime | None = None
) -> tuple[str, Token]:
    """Mints a platform token and returns its value and its record.

    Raises ``Invalid`` if ``expires_at`` is not in the future.
    """
    expires_at = truncate_to_milliseconds(expires_at) if expires_at else None
    value = formats.new(formats.PLATFORM_TOKEN)
    token = _new_token(
        value,
        scope=Scope.PLATFORM,
        name=name,
        can_read=READ in scopes,
        can_write=WRITE in scopes,
        expires_at=expires_at,
    )
    with log.turn(actor=actor) as turn:
        if expires_at is not None and expires_at <= turn.at:
            raise Invalid.field("expiresAt", FieldCode.RANGE, "Choose a time in the future.")
        _save(turn, token)
    return value, token


def revoke(*, token: Token, actor: Actor) -> Token:
    """Revokes a token and returns its record. A revoked token is returned unchanged.

    Revoking has no rate limit, so revoking a second time does not take a turn at the log.
    Raises ``TokenInvalid`` if the calling token was revoked in the meantime.
    """
    if token.revoked_at is not None:
        return token
    prefetch_related_objects([token], "desk__user")
    with log.turn(actor=actor) as turn:
        _refuse_ended_token(actor, turn.at)
        token.refresh_from_db(fields=["revoked_at"])
        if token.revoked_at is None:
            token.revoked_at = turn.at
            token.save(update_fields=["revoked_at"])
            turn.append(Kind.TOKEN_REVOKED, topic=token.topic, data=token.as_event_data())
            transaction.on_commit(lambda: credential_cache.forget_token(token))
            sentence = f"The desk token {token.hint} was revoked."
            notices.notify_owner(turn, token.desk, sentence, "The token of your desk was revoked")
    return token


def generate_secret(
    *,
    source: Source,
    actor: Actor,
    automation: Automation | None = None,
    overlap: timedelta = timedelta(0),
) -> tuple[str, SigningSecret]:
    """Generates a signing secret for an owner and returns its text and its record.

    The current secret keeps verifying for ``overlap`` (at most seven days). A secret that is
    already in an overlap ends now, so at most two secrets are live. Raises ``Invalid`` if the
    overlap is out of range or the bot was removed.
    """
    if not timedelta(0) <= overlap <= MAX_OVERLAP:
        raise Invalid.field("overlap", FieldCode.RANGE, "Choose an overlap of at most seven days.")
    text = formats.new(formats.SIGNING_SECRET)
    secret = SigningSecret(source=source, automation=automation, hint=formats.hint(text))
    secret.encrypt(text)
    prefetch_related_objects([secret], "automation__desk__user")
    with log.turn(actor=actor) as turn:
        if automation:
            refuse_removed(automation)
        for old in SigningSecret.objects.of(source, secret.automation_id).live(turn.at):
            old.automation = automation
            _end(turn, [old], turn.at if old.ends_at else turn.at + overlap)
        secret.created_at = turn.at
        secret.save(force_insert=True)
        turn.append(Kind.SECRET_GENERATED, topic=_topic(secret), data=secret.as_event_data())
        transaction.on_commit(lambda: credential_cache.forget_secrets([secret]))
        if automation:
            sentence = (
                f"A signing secret of the bot {automation.name} was generated: {secret.hint}."
            )
            subject = "A signing secret of a bot of yours was generated"
            notices.notify_owner(turn, automation.desk, sentence, subject)
    return text, secret


def end_secret(*, secret: SigningSecret, actor: Actor) -> None:
    """Ends a secret at once. A secret that has already ended takes no turn at the log."""
    if secret.ends_at is not None and secret.ends_at <= timezone.now():
        return
    prefetch_related_objects([secret], "automation__desk__user")
    with log.turn(actor=actor) as turn:
        secret.refresh_from_db(fields=["ends_at"])
        if secret.ends_at is None or secret.ends_at > turn.at:
            _end(turn, [secret], turn.at)


def remove_automation(*, automation: Automation, actor: Actor) -> None:
    """Removes a bot, ends its secrets and withdraws its election.

    A bot that is already removed takes no turn at the log.
    """
    current = Automation.objects.not_removed().filter(pk=automation.pk)
    if current.exists():
        prefetch_related_objects([automation], "desk__user")
        with log.turn(actor=actor) as turn:
            _remove_bots(turn, automation.desk, current.all(), WithdrawalReason.REMOVED)


def end_credentials(*, desk: Desk, actor: Actor, token: bool, secrets: bool) -> tuple[int, int]:
    """Revokes the desk's token, ends its bots' secrets, or both; returns how many of each."""
    with log.turn(actor=actor) as turn:
        revoked = _revoke_all(desk, actor) if token else 0
        ended = list(SigningSecret.objects.of_present_bots(desk).live(turn.at)) if secrets else []
        _end(turn, ended, turn.at)
    return revoked, len(ended)


def end_desk(turn: log.Turn, desk: Desk, actor: Actor, reason: WithdrawalReason) -> None:
    """Ends everything that a desk owns. Needs the caller's turn at the log.

    Its statements are the same for a bot as for fifty: everybody's signals wait meanwhile.
    """
    _remove_bots(turn, desk, Automation.objects.not_removed().filter(desk=desk), reason)
    desks.disconnect(desk=desk, actor=actor, reason=reason)
    _revoke_all(desk, actor)
    desk_ends.send(Desk, desk=desk, turn=turn)


def remove_some_bots(*, desk: Desk, actor: Actor, most: int) -> bool:
    """Removes up to ``most`` bots of a desk that is about to be closed.

    Returns False if there was none.
    """
    bots = Automation.objects.not_removed().filter(desk=desk)
    some = list(bots.values_list("pk", flat=True)[:most])
    if some:
        with log.turn(actor=actor) as turn:
            _remove_bots(turn, desk, bots.filter(pk__in=some), WithdrawalReason.CLOSED)
    return bool(some)


def _revoke_all(desk: Desk, actor: Actor) -> int:
    """Revokes the desk's tokens and returns their number."""
    live = list(_live(desk))
    for token in live:
        token.desk = desk
        revoke(token=token, actor=actor)
    return len(live)


def _live(desk: Desk) -> QuerySet[Token]:
    return Token.objects.filter(desk=desk, revoked_at=None)


def _refuse_ended_token(actor: Actor, at: datetime) -> None:
    tokens = Token.objects.active(at).filter(public_id=actor.id)
    if actor.type == ActorType.TOKEN and not tokens.exists():
        raise TokenInvalid


def _new_token(value: str, *, name: str, **fields: object) -> Token:
    require_name(name)
    digest, key_id = keys.new_digest(value)
    return Token(name=name, digest=digest, key_id=key_id, hint=formats.hint(value), **fields)


def _save(turn: log.Turn, token: Token) -> None:
    token.created_at = turn.at
    token.save(force_insert=True)
    turn.append(Kind.TOKEN_MINTED, topic=token.topic, data=token.as_event_data())
    sentence = f"The desk token {token.hint} was minted."
    notices.notify_owner(turn, token.desk, sentence, "A token of your desk was minted")


def _remove_bots(
    turn: log.Turn, desk: Desk, bots: QuerySet[Automation], reason: WithdrawalReason
) -> None:
    """Removes bots of a desk, with their secrets and elections."""
    removed = list(bots)
    live = SigningSecret.objects.filter(automation__in=removed).live(turn.at)
    secrets = list(live.select_related("automation__desk__user"))
    _store_end(turn, secrets, turn.at)

    def end_secrets(bot: Automation) -> None:
        for secret in secrets:
            if secret.automation_id == bot.pk:
                _record_end(turn, secret, notifies=reason != WithdrawalReason.CLOSED)

    remove_bots(turn, desk, removed, reason, end_secrets=end_secrets)


def _end(turn: log.Turn, secrets: Sequence[SigningSecret], moment: datetime) -> None:
    _store_end(turn, secrets, moment)
    for secret in secrets:
        _record_end(turn, secret)


def _store_end(turn: log.Turn, secrets: Sequence[SigningSecret], moment: datetime) -> None:
    """Stores when these secrets end, in one statement."""
    rows = SigningSecret.objects.filter(pk__in=[secret.pk for secret in secrets])
    rows.update(ends_at=moment)
    for secret in secrets:
        secret.ends_at = moment
    transaction.on_commit(lambda: credential_cache.forget_secrets(secrets))


def _record_end(turn: log.Turn, secret: SigningSecret, *, notifies: bool = True) -> None:
    """Appends the event of a secret's end, and notifies the owner."""
    turn.append(Kind.SECRET_ENDED, topic=_topic(secret), data=secret.as_event_data())
    if notifies and secret.automation and secret.ends_at:
        has_ended = secret.ends_at <= turn.at
        when = "has ended" if has_ended else f"ends at {to_rfc3339(secret.ends_at)}"
        sentence = f"The signing secret {secret.hint} of the bot {secret.automation.name} {when}."
        subject = f"A signing secret of a bot of yours {'has ended' if has_ended else 'will end'}"
        notices.notify_owner(turn, secret.automation.desk, sentence, subject)


def _topic(secret: SigningSecret) -> str | None:
    return secret.automation.desk.public_id if secret.automation else None

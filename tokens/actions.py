"""Minting and revoking tokens, generating and ending signing secrets.

A value is made, digested or encrypted before the log's lock is taken, returned once beside its
record, and kept nowhere (contract, section 2).
"""

from datetime import datetime, timedelta

from desks import actions as desks
from desks.models import Automation, Desk, User
from desks.models.election import Reason
from events import log
from events.kinds import Kind
from events.refusals import Invalid, NotAllowed
from events.times import written
from tokens import formats, keys
from tokens.models import Scope, SigningSecret, Source, Token
from tokens.models.token import READ, WRITE

LONGEST_OVERLAP = timedelta(days=7)
DESK_TOKEN_NAME = "Desk token"  # noqa: S105 - a label


def mint_desk_token(*, desk: Desk, name: str = DESK_TOKEN_NAME) -> tuple[str, Token]:
    """The value and the record of the desk's new token; the one before it is revoked."""
    value = formats.new(formats.DESK_TOKEN)
    token = _new_token(value, scope=Scope.DESK, desk=desk, name=name, can_read=True)
    with log.turn() as turn:
        if not User.objects.filter(pk=desk.user_id, is_active=True).exists():
            raise NotAllowed("This account was deactivated.")
        for old in Token.objects.filter(desk=desk, revoked_at=None).select_related("desk"):
            revoke(token=old)
        _keep(turn, token)
    return value, token


def mint_platform_token(
    *, name: str, scopes: list[str], expires_at: datetime | None = None
) -> tuple[str, Token]:
    """The value and the record of a new platform token; raises ``Invalid`` for a past expiry."""
    value = formats.new(formats.PLATFORM_TOKEN)
    token = _new_token(
        value,
        scope=Scope.PLATFORM,
        name=name,
        can_read=READ in scopes,
        can_write=WRITE in scopes,
        expires_at=expires_at,
    )
    with log.turn() as turn:
        if expires_at is not None and expires_at <= turn.at:
            raise Invalid.field("expiresAt", "past", "Choose a time to come.")
        _keep(turn, token)
    return value, token


def revoke(*, token: Token) -> Token:
    """Revokes a token and returns its record; a token that is revoked already stays as it is.

    Asking for that again takes no turn: whoever holds a desk token may ask as often as it reads.
    """
    if token.revoked_at is not None:
        return token
    with log.turn() as turn:
        token.refresh_from_db()
        if token.revoked_at is None:
            token.revoked_at = turn.at
            token.save(update_fields=["revoked_at"])
            turn.append(Kind.TOKEN_REVOKED, topic=token.topic, data=token.as_event_data())
    return token


def generate_secret(
    *, source: Source, automation: Automation | None = None, overlap: timedelta = timedelta(0)
) -> tuple[str, SigningSecret]:
    """The text and the record of an owner's new secret.

    The one in use goes on verifying for ``overlap`` (at most seven days); one that was in an
    overlap already ends now, so that at most two are live.
    """
    if not timedelta(0) <= overlap <= LONGEST_OVERLAP:
        raise Invalid.field("overlap", "range", "Choose an overlap of at most seven days.")
    text = formats.new(formats.SIGNING_SECRET)
    secret = SigningSecret(source=source, automation=automation, hint=formats.hint(text))
    secret.seal(text)
    with log.turn() as turn:
        if automation and not Automation.objects.kept().filter(pk=automation.pk).exists():
            raise Invalid("This bot was removed.")
        for old in SigningSecret.objects.of(source, secret.automation_id).live(turn.at):
            _end(turn, old, turn.at if old.ends_at else turn.at + overlap)
        secret.created_at = turn.at
        secret.save(force_insert=True)
        turn.append(Kind.SECRET_GENERATED, topic=_topic(secret), data=_ending(secret))
    return text, secret


def end_secret(*, secret: SigningSecret) -> None:
    """Ends a secret at once; one that has ended already stays as it is."""
    with log.turn() as turn:
        secret.refresh_from_db()
        if secret.ends_at is None or secret.ends_at > turn.at:
            _end(turn, secret, turn.at)


def remove_automation(*, automation: Automation, reason: Reason = Reason.REMOVED) -> None:
    """Removes a bot: its secrets end, its election is withdrawn."""
    with log.turn() as turn:
        for secret in SigningSecret.objects.of(Source.TRADINGVIEW, automation.pk).live(turn.at):
            _end(turn, secret, turn.at)
        desks.remove_automation(automation=automation, reason=reason)


def deactivate(*, user: User) -> None:
    """Shuts a customer out: disconnected, token revoked, bots removed (contract, section 1)."""
    desk = Desk.objects.filter(user=user).first()
    with log.turn():
        User.objects.filter(pk=user.pk).update(is_active=False)
        if desk is None:
            return
        for automation in Automation.objects.kept().filter(desk=desk):
            remove_automation(automation=automation, reason=Reason.DEACTIVATED)
        desks.disconnect(desk=desk, reason=Reason.DEACTIVATED)
        for token in Token.objects.filter(desk=desk, revoked_at=None).select_related("desk"):
            revoke(token=token)


def _new_token(value: str, **fields: object) -> Token:
    digest, key_id = keys.new_digest(value)
    return Token(digest=digest, key_id=key_id, hint=formats.hint(value), **fields)


def _keep(turn: log.Turn, token: Token) -> None:
    token.created_at = turn.at
    token.save(force_insert=True)
    turn.append(Kind.TOKEN_MINTED, topic=token.topic, data=token.as_event_data())


def _end(turn: log.Turn, secret: SigningSecret, moment: datetime) -> None:
    secret.ends_at = moment
    secret.save(update_fields=["ends_at"])
    turn.append(Kind.SECRET_ENDED, topic=_topic(secret), data=_ending(secret))


def _topic(secret: SigningSecret) -> str | None:
    return secret.automation.desk.public_id if secret.automation else None


def _ending(secret: SigningSecret) -> dict[str, str | None]:
    return {"owner": secret.owner, "endsAt": written(secret.ends_at)}

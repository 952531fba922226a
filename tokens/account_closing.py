"""Closes a customer's account for good, deactivates and reactivates one (contract, section 1)."""

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.sessions.models import Session
from django.template.loader import render_to_string

from desks import actions as desks
from desks.event_data import WithdrawalReason
from desks.models import Chat, Desk, NoticeChoice, QueuedNotice, User
from desks.notices.outbox import write_security
from events import log
from events.actors import Actor
from events.http.refusals import Invalid
from events.kinds import Kind
from tokens.actions import end_desk, remove_some_bots
from tokens.secret_erasure import erase_secrets_of

# All signals wait while a turn ends what it ends.
BOTS_OF_A_TURN = 5
# A host that can never receive mail (RFC 2606).
NO_ADDRESS = "closed-{}@account.invalid"


def close_account(desk: Desk) -> bool:
    """Closes the account of the desk's owner, in one turn whose last event is ``desk.closed``.

    Returns False, and closes nothing, if staff deactivated it or it is closed already.

    The bots are removed before it, in turns of their own. If that breaks off, the account is still
    open, and can be closed again.

    Bots, elections, connection, tokens, secrets and webhooks end with their events. The address,
    password, second factors, sessions and the texts of the secrets are deleted. Ids, names and
    events stay.
    """
    actor, user = desk.actor, User.objects.get(pk=desk.user_id)
    if not user.is_active:
        return False
    no_password = make_password(None)
    # The last notice, to the address that the account had.
    subject = render_to_string("tokens/email/closed_subject.txt").strip()
    body = render_to_string("tokens/email/closed_message.txt", {"base": settings.BASE_URL}).strip()
    while remove_some_bots(desk=desk, actor=actor, most=BOTS_OF_A_TURN):
        pass
    with log.turn(actor=actor) as turn:
        active = User.objects.filter(pk=user.pk, is_active=True)
        if active.select_for_update(no_key=True).first() is None:
            return False
        # Before the notices of the closing are written: this deletes those that wait.
        _delete_personal_rows(user)
        end_desk(turn, desk, actor, WithdrawalReason.CLOSED)
        desks.set_deactivated(desk=desk, kind=Kind.DESK_CLOSED, actor=actor)
        # Last: this locks the row, with another address, also for who has written a notice to the
        # user and commits. Such a writer may have locked a chat, second factor or webhook before.
        User.objects.filter(pk=user.pk).update(
            email=NO_ADDRESS.format(user.pk),
            password=no_password,
            is_active=False,
            closed_at=turn.at,
            last_login=None,
        )
        write_security(user.pk, subject, body, at=turn.at, address=user.email)
    erase_secrets_of(desk)
    return True


def deactivate(*, user: User, actor: Actor) -> None:
    """Deactivates a user. Ends the sessions, and the desk with its token, bots and webhooks."""
    with log.turn(actor=actor) as turn:
        User.objects.filter(pk=user.pk).update(is_active=False)
        _end_sessions(user)
        desk = Desk.objects.filter(user=user).first()
        if desk is not None:
            end_desk(turn, desk, actor, WithdrawalReason.DEACTIVATED)
            desks.set_deactivated(desk=desk, kind=Kind.DESK_DEACTIVATED, actor=actor)


def reactivate(*, user: User, actor: Actor) -> None:
    """Lets a user sign in again. Connection, token, bots and elections are not restored.

    Raises ``Invalid`` if the user closed the account.
    """
    with log.turn(actor=actor):
        if User.objects.filter(pk=user.pk, closed_at__isnull=False).exists():
            raise Invalid("The owner closed this account. Nobody can open it again.")
        User.objects.filter(pk=user.pk).update(is_active=True)
        desk = Desk.objects.filter(user=user).first()
        if desk is not None:
            desks.set_deactivated(desk=desk, kind=Kind.DESK_REACTIVATED, actor=actor)


def _delete_personal_rows(user: User) -> None:
    EmailAddress.objects.filter(user=user).delete()
    Authenticator.objects.filter(user=user).delete()
    # Who sends to a chat locks it before its notices, too.
    list(Chat.objects.select_for_update().filter(user=user).values_list("pk"))
    QueuedNotice.objects.filter(user=user).delete()
    NoticeChoice.objects.filter(user=user).delete()
    _end_sessions(user)


def _end_sessions(user: User) -> None:
    sessions = UserSession.objects.filter(user=user)
    Session.objects.filter(pk__in=list(sessions.values_list("session_key", flat=True))).delete()
    sessions.delete()

"""Closes a customer's account for good: what ends, and what the log keeps (contract, section 1)."""

from datetime import datetime

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.sessions.models import Session
from django.template.loader import render_to_string

from desks import actions as desks
from desks.models import Automation, Desk, Digest, Notice, NoticeChoice, User
from desks.models.election import Reason
from desks.notices.outbox import tell_security
from events import log
from tokens.actions import remove_automation, revoke
from tokens.ending import end_elsewhere
from tokens.models import SigningSecret, Token
from tokens.notices import PARTS

KIND = "tokens/email/closed"
# A host that can never receive mail (RFC 2606).
NO_ADDRESS = "closed-{}@account.invalid"


def close_account(desk: Desk) -> None:
    """Closes the account of the desk's owner, in one turn whose last event is ``desk.closed``.

    Bots, elections, connection, tokens, secrets and webhooks end with their events. The address,
    password, second factors, sessions and the texts of the secrets are deleted. Ids, names and
    events stay.
    """
    actor, user = desk.actor, User.objects.get(pk=desk.user_id)
    no_password = make_password(None)
    with log.turn(actor=actor) as turn:
        if not User.objects.filter(pk=user.pk, is_active=True).exists():
            return
        User.objects.filter(pk=user.pk).update(
            email=NO_ADDRESS.format(user.pk),
            password=no_password,
            is_active=False,
            closed_at=turn.at,
            last_login=None,
        )
        _delete_credentials(user)
        for automation in Automation.objects.not_removed().filter(desk=desk):
            remove_automation(automation=automation, actor=actor, reason=Reason.CLOSED)
        desks.disconnect(desk=desk, actor=actor, reason=Reason.CLOSED)
        for token in Token.objects.filter(desk=desk, revoked_at=None).select_related("desk"):
            revoke(token=token, actor=actor)
        _erase_secrets(desk)
        end_elsewhere(desk, actor)
        desks.close_desk(desk=desk, actor=actor)
        _confirm(user, turn.at)


def _delete_credentials(user: User) -> None:
    EmailAddress.objects.filter(user=user).delete()
    Authenticator.objects.filter(user=user).delete()
    Notice.objects.filter(user=user).delete()
    NoticeChoice.objects.filter(user=user).delete()
    Digest.objects.filter(user=user).delete()
    sessions = UserSession.objects.filter(user=user)
    Session.objects.filter(pk__in=list(sessions.values_list("session_key", flat=True))).delete()
    sessions.delete()


def _erase_secrets(desk: Desk) -> None:
    """Replaces the text of each ended secret by nothing. The row stays, as the log tells it."""
    for secret in SigningSecret.objects.of_desk(desk):
        secret.encrypt("")
        secret.save(update_fields=["ciphertext", "key_id"])


def _confirm(user: User, at: datetime) -> None:
    """Writes the last notice, to the address that the account had."""
    context = {"base": settings.BASE_URL}
    subject, body = (render_to_string(f"{KIND}_{part}.txt", context) for part in PARTS)
    tell_security(user.pk, subject.strip(), body.strip(), at=at, address=user.email)

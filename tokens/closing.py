"""Closes a customer's account for good: what ends, and what the log keeps (contract, section 1)."""

from functools import partial

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.sessions.models import Session
from django.core.mail import EmailMessage
from django.template.loader import render_to_string

from desks import actions as desks
from desks import mails
from desks.models import Automation, Desk, User
from desks.models.election import Reason
from events import log
from tokens.actions import remove_automation, revoke
from tokens.models import SigningSecret, Token
from tokens.notices import PARTS

KIND = "tokens/email/closed"
# A host that can never receive mail (RFC 2606).
NO_ADDRESS = "closed-{}@account.invalid"


def close_account(desk: Desk) -> None:
    """Closes the account of the desk's owner, in one turn whose last event is ``desk.closed``.

    Bots, elections, connection, tokens and secrets end with their events. The address, password,
    second factors, sessions and the texts of the secrets are deleted. Ids, names and events stay.
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
        desks.close_desk(desk=desk, actor=actor)
        turn.after_commit.append(partial(_confirm, user.email))


def _delete_credentials(user: User) -> None:
    EmailAddress.objects.filter(user=user).delete()
    Authenticator.objects.filter(user=user).delete()
    sessions = UserSession.objects.filter(user=user)
    Session.objects.filter(pk__in=list(sessions.values_list("session_key", flat=True))).delete()
    sessions.delete()


def _erase_secrets(desk: Desk) -> None:
    """Replaces the text of each ended secret by nothing. The row stays, as the log tells it."""
    for secret in SigningSecret.objects.of_desk(desk):
        secret.encrypt("")
        secret.save(update_fields=["ciphertext", "key_id"])


def _confirm(address: str) -> None:
    """Sends the last mail, to the address that the account had."""
    context = {"base": settings.BASE_URL}
    subject, body = (render_to_string(f"{KIND}_{part}.txt", context) for part in PARTS)
    mails.send(EmailMessage(subject.strip(), body.strip(), to=[address]), KIND)

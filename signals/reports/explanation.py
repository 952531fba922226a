"""Explains an accepted signal by what was valid at its position in the log."""

from dataclasses import dataclass

from desks.models import Automation, Card, Desk, Election
from events.models import Event
from signals.intake.models import Signal
from tokens.models import SigningSecret, Token


@dataclass(frozen=True, slots=True)
class Explanation:
    """What decided a signal. A field is None if the signal did not depend on it.

    ``credential_was_valid`` says whether the credential was valid when the signal was received.
    A fan-out has no single ``election``: the signal's ``matched`` counts them.
    """

    signal: Signal
    event: Event | None
    token: Token | None
    secret: SigningSecret | None
    credential_was_valid: bool
    bot: Automation | None
    desk: Desk | None
    card: Card | None
    election: Election | None


def explain(signal: Signal) -> Explanation:
    """Returns the explanation of a signal, in at most seven queries."""
    token = Token.objects.filter(public_id=signal.credential).first()
    secret = SigningSecret.objects.filter(public_id=signal.credential).first()
    ended_at = token.revoked_at if token else secret.ends_at if secret else None
    credential = token or secret
    return Explanation(
        signal=signal,
        event=Event.objects.filter(pk=signal.position).first(),
        token=token,
        secret=secret,
        credential_was_valid=credential is not None
        and credential.created_at <= signal.received_at
        and (ended_at is None or ended_at >= signal.received_at),
        bot=Automation.objects.filter(pk=signal.bot_id).first(),
        desk=Desk.objects.filter(public_id=signal.user_id).first(),
        card=Card.objects.filter(pk=signal.card_id).first(),
        election=_election(signal),
    )


def _election(signal: Signal) -> Election | None:
    """Returns the election that the signal matched, or None if it was not sent to one desk."""
    if signal.user_id is None:
        return None
    standing = Election.objects.with_end().filter(opened__lt=signal.position)
    standing = standing.filter(end__gt=signal.position)  # type: ignore[misc]
    if signal.bot_id:
        return standing.filter(automation=signal.bot_id).first()
    return standing.filter(desk__public_id=signal.user_id, card=signal.card_id).first()

"""Why an accepted signal did what it did: what was in force at its position of the log."""

from dataclasses import dataclass

from desks.models import Automation, Card, Desk, Election
from events.models import Event
from signals.models import Signal
from tokens.models import SigningSecret, Token


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a signal met. Null is what was not needed: a fan-out's elections are its ``matched``.

    ``credential_held`` says whether the credential was in force when the signal was received.
    """

    signal: Signal
    event: Event | None
    token: Token | None
    secret: SigningSecret | None
    credential_held: bool
    bot: Automation | None
    desk: Desk | None
    card: Card | None
    election: Election | None


def explain(signal: Signal) -> Explanation:
    """The explanation of one signal, in at most seven queries."""
    token = Token.objects.filter(public_id=signal.credential).first()
    secret = SigningSecret.objects.filter(public_id=signal.credential).first()
    ended_at = token.revoked_at if token else secret.ends_at if secret else None
    made = token or secret
    return Explanation(
        signal=signal,
        event=Event.objects.filter(pk=signal.position).first(),
        token=token,
        secret=secret,
        credential_held=made is not None
        and made.created_at <= signal.received_at
        and (ended_at is None or ended_at >= signal.received_at),
        bot=Automation.objects.filter(pk=signal.bot_id).first(),
        desk=Desk.objects.filter(public_id=signal.user_id).first(),
        card=Card.objects.filter(pk=signal.card_id).first(),
        election=_election(signal),
    )


def _election(signal: Signal) -> Election | None:
    """The one election that stood for it at its position; none where it was for all, or nobody."""
    if signal.user_id is None:
        return None
    stood = Election.objects.with_end().filter(opened__lt=signal.position)
    stood = stood.filter(end__gt=signal.position)  # type: ignore[misc]
    if signal.bot_id:
        return stood.filter(automation=signal.bot_id).first()
    return stood.filter(desk__public_id=signal.user_id, card=signal.card_id).first()

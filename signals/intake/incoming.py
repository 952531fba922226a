"""An incoming signal, and how its refusal is recorded (contract, section 4)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from desks.models import Automation, Desk, Election
from events import log
from events.actors import Actor
from events.http.refusals import FloorSecretRefused, Refused, SignatureInvalid, TokenInvalid
from events.kinds import Kind
from signals.intake.refusal_quota import Sender, allowances
from signals.intake.statements import CredentialState, load_credential_state
from tokens.choices import Source
from tokens.crypto.exchange_secrets import contains_secret
from tokens.models import SigningSecret, Token

MAX_SENT_LENGTH = 41  # characters; a longer pair or direction of a refused signal is not recorded


@dataclass(frozen=True, slots=True)
class IncomingSignal:
    """A request body and its sender.

    ``automation`` is the bot that the signal belongs to. ``credential`` is None if nothing
    authorised the request. Such a signal is only recorded as refused. ``deploy_to`` is the desk in
    the path.
    """

    body: dict[str, Any]
    credential: Token | SigningSecret | None
    automation: Automation | None = None
    deploy_to: str | None = None
    # Reads the credential again if it came from a cache, and returns None if it did not.
    confirm: Callable[[], Token | SigningSecret | None] | None = None

    def confirmed(self) -> "IncomingSignal":
        """The signal with its credential read again, if that came from a cache; otherwise itself.

        A cached credential may be accepted, because it is checked under the log's lock. Before a
        refusal is recorded or answered, it must be confirmed. Raises ``Unauthenticated``.
        """
        credential = self.confirm() if self.confirm else None
        if credential is None:
            return self
        automation = credential.automation if isinstance(credential, SigningSecret) else None
        return replace(self, credential=credential, automation=automation, confirm=None)

    @property
    def credential_id(self) -> str | None:
        return self.credential.public_id if self.credential else None

    @property
    def actor(self) -> Actor | None:
        """The sender, as the actor of an event."""
        return self.credential.actor if self.credential else None

    @property
    def sender(self) -> Sender:
        """Whose allowance its refusal uses: the credential's, or the one for unsigned requests."""
        bot_id = self.automation.pk if self.automation and self.credential else None
        return Sender(self.actor, self.owner_id, bot_id)

    @property
    def owner_id(self) -> str | None:
        """The userId of the bot's desk, or None if no bot sent it."""
        return self.automation.desk.public_id if self.automation else None

    def user_id(self) -> str | None:
        """The userId of the target desk: the bot's desk or the named one. None if there is none."""
        named = self.deploy_to or self.body.get("userId")
        if self.automation or not isinstance(named, str):
            return self.owner_id
        return named if Desk.objects.filter(public_id=named).exists() else None

    def sent(self) -> dict[str, str | None]:
        """The pair and direction to record. Both are None if the body contains a secret."""
        keep = not contains_secret(self.body)
        return {
            name: _printable(self.body.get(name)) if keep else None
            for name in ("pair", "direction")
        }


def record_refusal(refusal: Refused, incoming: IncomingSignal) -> None:
    """Records a refusal that was decided before the lock, in a turn of its own.

    Raises ``Unauthenticated`` if the credential ended before that turn.
    """
    if not allowances.take(incoming.sender):
        return
    user_id, sent = incoming.user_id(), incoming.sent()
    source = incoming.body.get("source")
    with log.turn(actor=incoming.actor) as turn:
        check_authority(incoming, load_credential_state(incoming.credential, source, turn.at))
        append_refusal(turn, refusal, incoming, user_id, sent)


def check_authority(incoming: IncomingSignal, state: CredentialState) -> None:
    """Raises ``Unauthenticated`` if the credential was not valid at the time of the turn."""
    if not state.is_valid:
        raise TokenInvalid if isinstance(incoming.credential, Token) else SignatureInvalid
    if state.has_own_secret:
        raise FloorSecretRefused


def record_bad_signature(body: dict[str, Any]) -> None:
    """Records a push with a bad signature, so that the owner of the named bot sees it."""
    bot_id = body.get("botId")
    if body.get("source") == Source.TRADINGVIEW and isinstance(bot_id, str):
        bot = Automation.objects.not_removed().select_related("desk").filter(pk=bot_id).first()
        if bot is not None:
            record_refusal(
                SignatureInvalid(), IncomingSignal(body, credential=None, automation=bot)
            )


def append_refusal(
    turn: log.Turn,
    refusal: Refused,
    incoming: IncomingSignal,
    user_id: str | None,
    sent: dict[str, str | None],
) -> None:
    """Writes the refusal at the turn's position. The caller computes its arguments beforehand."""
    source, bot = incoming.body.get("source"), incoming.automation
    turn.append(
        Kind.SIGNAL_REFUSED,
        topic=user_id,
        data={
            "code": refusal.code,
            "source": source if source in list(Source) else None,
            "sent": sent,
            "elected": refusal.members.get("elected") or elected_by(bot),
            "botId": bot.pk if bot else None,
        },
    )


def elected_by(bot: Automation | None) -> dict[str, str] | None:
    """The pair and direction that the bot elected, to show beside what it sent."""
    election = Election.objects.standing().filter(automation=bot).first() if bot else None
    return {"pair": election.pair, "direction": election.direction} if election else None


def _printable(value: Any) -> str | None:
    """Returns the value if it is short printable text, otherwise None."""
    fits = isinstance(value, str) and len(value) <= MAX_SENT_LENGTH and value.isprintable()
    return value if fits else None

"""A body on its way in, and what the log keeps of one that is refused (contract, section 4)."""

from dataclasses import dataclass
from typing import Any

from desks import limits
from desks.models import Automation, Desk, Election
from events import log
from events.kinds import Kind
from events.refusals import Refused, SignatureInvalid
from tokens.exchange_secrets import holds_secret
from tokens.models import SigningSecret, Source, Token

LONGEST_SENT = 41  # characters of a refused pair or direction that the log keeps


@dataclass(frozen=True, slots=True)
class Received:
    """A body, and who sent it.

    ``automation`` is the bot whose signal it is; ``credential`` is null where nothing authorised
    it, and then it is only here to be refused. ``deploy_to`` is the desk that the path names.
    """

    body: dict[str, Any]
    credential: Token | SigningSecret | None
    automation: Automation | None = None
    deploy_to: str | None = None

    @property
    def credential_id(self) -> str | None:
        return self.credential.public_id if self.credential else None

    @property
    def sender(self) -> str:
        """Whom its refusals are counted for: the bot, the token, the shared secret."""
        return self.automation.pk if self.automation else str(self.credential_id)

    @property
    def owner_id(self) -> str | None:
        """The desk of the bot whose signal it is."""
        return self.automation.desk.public_id if self.automation else None

    def user_id(self) -> str | None:
        """The desk that it goes to, if there is one: the bot's owner's or the one it names."""
        named = self.deploy_to or self.body.get("userId")
        if self.automation or not isinstance(named, str):
            return self.owner_id
        return named if Desk.objects.filter(public_id=named).exists() else None

    def sent(self) -> dict[str, str | None]:
        """The pair and direction that may be kept of it: none of a body that holds a secret."""
        keep = not holds_secret(self.body)
        return {
            name: _kept(self.body.get(name)) if keep else None for name in ("pair", "direction")
        }


def record_refusal(refusal: Refused, received: Received) -> None:
    """Records a refusal that was known before the lock, in a short turn of its own."""
    if limits.has_room("refusals", received.sender):
        user_id, sent = received.user_id(), received.sent()
        with log.turn() as turn:
            append_refusal(turn, refusal, received, user_id, sent)


def record_bad_signature(body: dict[str, Any]) -> None:
    """Tells a bot's owner that somebody pushed in its name and could not sign."""
    bot_id = body.get("botId")
    if body.get("source") == Source.TRADINGVIEW and isinstance(bot_id, str):
        bot = Automation.objects.kept().select_related("desk").filter(pk=bot_id).first()
        if bot is not None:
            record_refusal(SignatureInvalid(), Received(body, credential=None, automation=bot))


def append_refusal(
    turn: log.Turn,
    refusal: Refused,
    received: Received,
    user_id: str | None,
    sent: dict[str, str | None],
) -> None:
    """Writes the refusal at the turn's position. What is given is found before the lock."""
    source, bot = received.body.get("source"), received.automation
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
        platform_data={"credential": received.credential_id},
    )


def elected_by(bot: Automation | None) -> dict[str, str] | None:
    """The pair and direction that stand for a bot, so that its owner sees them beside what came."""
    election = Election.objects.standing().filter(automation=bot).first() if bot else None
    return {"pair": election.pair, "direction": election.direction} if election else None


def _kept(value: Any) -> str | None:
    """What the log keeps of a refused pair or direction: short text as it was sent, or nothing."""
    fits = isinstance(value, str) and len(value) <= LONGEST_SENT and value.isprintable()
    return value if fits else None

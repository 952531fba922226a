"""What the hook would say to a bot's message, were it signed and sent now."""

from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from desks.models import Automation
from events.api import strict_json
from events.refusals import BodyTooLarge, Refused, SignatureInvalid
from signals import intake
from signals.received import Received, elected_by
from tokens.models import Source

OTHER_SIGNER = (
    "The secret of this bot signs for source tradingview and this botId alone: "
    "write both as they stand in the message above."
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Accepted where ``refusal`` is null. ``sent`` and ``elected`` are pair and direction each."""

    refusal: Refused | None = None
    sent: dict[str, Any] = field(default_factory=dict)
    elected: dict[str, Any] | None = None
    outcome: str = ""


def verdict(bot: Automation, message: str) -> Verdict:
    """The verdict on a body, by the very checks of the hook but for the signature's own."""
    try:
        received = Received(_read(bot, message), credential=None, automation=bot)
    except Refused as refusal:
        return Verdict(refusal)
    sent, elected = received.sent(), elected_by(bot)
    try:
        outcome, _ = intake.foresee(received)
    except Refused as refusal:
        return Verdict(refusal, sent, elected)
    return Verdict(sent=sent, elected=elected, outcome=outcome)


def _read(bot: Automation, message: str) -> dict[str, Any]:
    raw = message.encode("utf-8", "surrogatepass")
    if len(raw) > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
        raise BodyTooLarge
    body = strict_json.read(raw)
    if (body.get("source"), body.get("botId")) != (Source.TRADINGVIEW, bot.pk):
        raise SignatureInvalid(OTHER_SIGNER)
    return body

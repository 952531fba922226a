"""Checks a bot's message as the hook would, without signing or sending it."""

from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from desks.models import Automation
from events.http import strict_json
from events.http.refusals import BodyTooLarge, ExchangeSecret, Malformed, Refused, SignatureInvalid
from signals.intake import receive
from signals.intake.incoming import IncomingSignal, elected_by
from tokens.choices import Source
from tokens.crypto.exchange_secrets import contains_secret, text_contains_secret

OTHER_SIGNER = (
    "This bot's secret signs only source tradingview with this botId. Copy both from the message "
    "on the bot's page."
)


@dataclass(frozen=True, slots=True)
class DryCheck:
    """The result of a check: accepted if ``refusal`` is None.

    ``sent`` and ``elected`` each hold a pair and a direction.
    """

    refusal: Refused | None = None
    sent: dict[str, Any] = field(default_factory=dict)
    elected: dict[str, Any] | None = None
    outcome: str = ""


def dry_check(bot: Automation, message: str) -> DryCheck:
    """Runs the hook's own checks on a message, except for the signature.

    The search for secrets comes first, whichever bot the message names and even if it is not JSON:
    the page must not show a message with a secret again.
    """
    try:
        received = IncomingSignal(_read(bot, message), credential=None, automation=bot)
    except Refused as refusal:
        return DryCheck(refusal)
    sent, elected = received.sent(), elected_by(bot)
    try:
        outcome, _ = receive.preview(received)
    except Refused as refusal:
        return DryCheck(refusal, sent, elected)
    return DryCheck(sent=sent, elected=elected, outcome=outcome)


def _read(bot: Automation, message: str) -> dict[str, Any]:
    raw = message.encode("utf-8", "surrogatepass")
    if len(raw) > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
        raise BodyTooLarge
    try:
        body = strict_json.parse(raw)
    except Malformed:
        if text_contains_secret(message):
            raise ExchangeSecret from None
        raise
    if contains_secret(body):
        raise ExchangeSecret
    if (body.get("source"), body.get("botId")) != (Source.TRADINGVIEW, bot.pk):
        raise SignatureInvalid(OTHER_SIGNER)
    return body

"""Checks a bot's message as the hook would, without signing or sending it.

It finds every mistake at once: it mends the first one, as the bot's election and the contract say,
and lets the hook's own checks find the next.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from django import forms
from django.http import QueryDict
from django.utils import timezone

from desks.models import Automation
from desks.pair_and_direction import PairAndDirection
from events.http import strict_json
from events.http.refusals import ExchangeSecret, Invalid, Malformed, Refused, SignatureInvalid
from events.json_schema import JsonObject
from events.times import to_rfc3339
from signals.contract.sample_code import ALERT_TIME, STRATEGY
from signals.intake.incoming_signal import IncomingSignal
from signals.intake.models import Checked
from signals.intake.receive import check
from signals.law.refusals import ModeRefused, NoElection, TickerOnly
from signals.law.rules import TICKERS
from signals.reports.explanation import elected_in
from tokens.choices import Source
from tokens.crypto.exchange_secrets import contains_secret, malformed_contains_secret

OTHER_SIGNER = (
    "This bot's secret signs only source tradingview with this botId. Copy both from the message "
    "on the bot's page."
)
NOT_JSON = (
    "This is not JSON. TradingView sends a text of its own until you replace it: paste the message "
    "of the TradingView tab into the alert."
)
MAX_MISTAKES = 12
MAX_MESSAGE = 4000  # characters: each mistake costs another look at the whole message


class MessageForm(forms.Form):
    """A bot's message, to be checked before it is sent. It may be any text."""

    message = forms.CharField(
        label="Message",
        strip=False,
        help_text=(
            "The whole JSON text, exactly as your alert or program sends it. Never enter a secret."
        ),
        widget=forms.Textarea({"rows": 10, "spellcheck": "false", "autocomplete": "off"}),
        error_messages={"required": f"Enter a message of at most {MAX_MESSAGE:,} characters."},
    )


def message_form(data: QueryDict) -> QueryDict:
    """The sent form, without a message that is too long, which nobody has searched for secrets."""
    form = data.copy()
    if len(form.get("message", "")) > MAX_MESSAGE:
        form["message"] = ""
    return form


@dataclass(frozen=True, slots=True)
class DryCheck:
    """The result of a check: accepted if there are no ``mistakes``, which are in the hook's order.

    ``sent`` and ``elected`` each hold a pair and a direction. ``ignored`` leaves out what a relay
    reads of a strategy's message and does not forward. ``mended`` is the message without the
    mistakes, empty if there is no such message.
    """

    mistakes: list[Refused]
    sent: dict[str, str | None]
    elected: PairAndDirection | None
    outcome: str
    ignored: list[str]
    mended: str


def dry_check(bot: Automation, message: str, sample: JsonObject) -> DryCheck:
    """Runs the hook's own checks on a message, except for the signature.

    The search for secrets comes first, whichever bot the message names and even if it is not JSON:
    the page must not show a message with a secret again. ``sample`` is the bot's own message. An
    alert's placeholder for the time counts as the present time, and a mended alert keeps it.
    """
    return examine(message, sample, elected_in(bot.election), lambda body: _check(bot, body))


def examine(
    message: str,
    sample: JsonObject,
    elected: PairAndDirection | None,
    judge: Callable[[JsonObject], Checked],
) -> DryCheck:
    """Finds the mistakes of a message. ``judge`` raises the first refusal that a body gets."""
    try:
        body = _parse(message)
    except Refused as refusal:
        return DryCheck([refusal], {}, None, "", [], written(sample))
    sent = IncomingSignal(body, credential=None).sent()
    if ALERT_TIME in message and "sentAt" in sample:
        sample = sample | {"sentAt": ALERT_TIME}
    mistakes: list[Refused] = []
    checked: Checked | None = None
    while not checked and len(mistakes) < MAX_MISTAKES:
        try:
            is_alert = body.get("sentAt") == ALERT_TIME
            checked = judge(body | {"sentAt": to_rfc3339(timezone.now())} if is_alert else body)
        except Refused as refusal:
            mistakes.append(refusal)
            before, body = body, corrected(body, refusal, sample)
            if isinstance(refusal, NoElection) or body == before:
                break
    return DryCheck(
        mistakes,
        sent if any(sent.values()) else {},
        elected,
        checked["wouldBe"] if checked else "",
        [name for name in checked["ignored"] if name not in STRATEGY] if checked else [],
        written(body) if checked and mistakes else "",
    )


def _parse(message: str) -> JsonObject:
    try:
        return strict_json.parse(message.encode("utf-8", "surrogatepass"))
    except Malformed:
        if malformed_contains_secret(message):
            raise ExchangeSecret from None
        if not message.lstrip().startswith("{"):
            raise Malformed(NOT_JSON) from None
        raise


def _check(bot: Automation, body: JsonObject) -> Checked:
    if contains_secret(body):
        raise ExchangeSecret
    if (body.get("source"), body.get("botId")) != (Source.TRADINGVIEW, bot.pk):
        raise SignatureInvalid(OTHER_SIGNER)
    return check(IncomingSignal(body, credential=None, automation=bot))


# A NUL begins what is no text: no text of a message has one (``strict_json``).
_NUMBER = re.compile(r'"\\u0000([^"]+)"')


def written(body: JsonObject) -> str:
    """A message as people read it, with its numbers as they were sent."""
    text = json.dumps(body, indent=2, ensure_ascii=False, default=lambda number: f"\0{number}")
    return _NUMBER.sub(r"\1", text)


# --- Corrections: one mistake at a time, with the values of the bot's own message -----------------

DROPPED: dict[type[Refused], tuple[str, ...]] = {TickerOnly: TICKERS, ModeRefused: ("mode",)}


def corrected(body: JsonObject, refusal: Refused, sample: JsonObject) -> JsonObject:
    """Returns the body without the mistake that the refusal names."""
    taken = refusal.wrong_members
    if isinstance(refusal, Invalid):
        taken = tuple(error["field"] for error in refusal.members["errors"])
    if isinstance(refusal, TickerOnly):
        taken = tuple(name for name in taken if not _is_fine(name, body))
    dropped = {*DROPPED.get(type(refusal), ()), *(name for name in taken if name not in sample)}
    kept = {
        name: value
        for name, value in body.items()
        if name not in dropped and not contains_secret({name: value})
    }
    return kept | {name: sample[name] for name in taken if name in sample}


def _is_fine(name: str, body: JsonObject) -> bool:
    """Whether a member of a message with a ticker needs no change: a pair has a slash."""
    value = body.get(name)
    return isinstance(value, str) and (name != "pair" or "/" in value)

"""Sample code that signs and sends one signal without changes (contract, section 3)."""

import functools
import json
from dataclasses import dataclass
from typing import TypedDict

from django.template import Engine, engines
from django.utils import timezone

from desks.models import Election
from events.times import to_rfc3339
from tokens.choices import Source

# The placeholder for a secret whose value is no longer known.
SECRET = "svc_sign_…"  # noqa: S105 - a placeholder
NONCE = "<nonce>"
ANY_PAIR = "<BASE>/<QUOTE>"
ANY_DIRECTION = "<long or short>"


# What the relays read of a strategy's message and do not forward: they forward only an order that
# opens the elected direction.
STRATEGY = {
    "market_position": "{{strategy.market_position}}",
    "order_action": "{{strategy.order.action}}",
}

# The chart platform replaces these placeholders. The nonce differs between two alerts, and is the
# same when the platform retries one. It holds no name of an order: a quotation mark in a name would
# break the JSON. Placeholders never fill in the pair or the direction.
ALERTS = {
    "Strategy": {
        "nonce": ("{{interval}}-{{strategy.order.action}}-{{strategy.position_size}}-{{timenow}}"),
        **STRATEGY,
    },
    "Indicator": {"nonce": "{{interval}}-{{timenow}}"},
}


@dataclass(frozen=True, slots=True)
class Sample:
    """Sample code in one language, and what it needs to run."""

    language: str
    needs: str
    code: str


@dataclass(frozen=True, slots=True)
class Alert:
    """The message to paste into an alert of the chart platform; ``of`` is the kind of alert."""

    of: str
    message: str


class Push(TypedDict):
    """What a page shows of a bot's sending: the address, the body, the alerts and the samples."""

    hook: str
    check_hook: str
    body: str
    test: str
    alerts: list[Alert]
    samples: list[Sample]


ALERT_TIME = "{{timenow}}"  # when an alert was sent
LANGUAGES = (
    ("Shell", "openssl and curl", "shell.sh"),
    ("Python", "standard library", "python.py"),
    ("Node", "Node 18 or newer", "node.js"),
    ("PHP", "PHP 8", "php.php"),
)


@functools.cache
def _engine() -> Engine:
    return Engine([*engines["django"].template_dirs], autoescape=False)


def plain_text(template: str, **values: object) -> str:
    """A text that is no HTML, with these values. A page that shows it escapes the whole of it."""
    return "".join(_engine().render_to_string(template, values))  # no SafeString


def push(
    url: str,
    bot_id: str,
    election: Election | None,
    secret: str = SECRET,
    *,
    says_when: bool = False,
) -> Push:
    """The template context that shows how a bot pushes.

    ``says_when`` adds when the signal was sent, for a bot whose signals have a maximum age.
    """
    elected = {
        "pair": election.pair if election else ANY_PAIR,
        "direction": election.direction if election else ANY_DIRECTION,
    }
    body = {
        "botId": bot_id,
        **elected,
        "nonce": NONCE,
        "elected": True,
        "source": Source.TRADINGVIEW.value,
    }
    values = {
        "secret": secret,
        "url": url,
        "bot_id": bot_id,
        **elected,
        "says_when": says_when,
    }

    def sent_at(time: str | None) -> dict[str, str | None]:
        return {"sentAt": time} if says_when else {}

    return {
        "hook": url,
        "check_hook": url.rpartition("/")[0] + "/check",
        "body": json.dumps({**body, **sent_at(to_rfc3339(timezone.now()))}, indent=2),
        "test": json.dumps({**body, **sent_at(ALERT_TIME)}, indent=2),
        "alerts": [
            Alert(of, json.dumps({**body, **filled_in, **sent_at(ALERT_TIME)}, indent=2))
            for of, filled_in in ALERTS.items()
        ],
        "samples": [
            Sample(language, needs, plain_text(f"contract/samples/{file}", **values))
            for language, needs, file in LANGUAGES
        ],
    }

"""Sample code that signs and sends one signal without changes (contract, section 3)."""

import json
from dataclasses import dataclass
from typing import TypedDict

from django.template import Context, Engine
from django.utils import timezone

from desks.models import Election
from desks.pair_and_direction import PairAndDirection
from events.times import to_rfc3339
from signals.contract.document import ANY_PAIR, bodies

# The placeholder for a secret whose value is no longer known.
SECRET = "svc_sign_…"  # noqa: S105 - a placeholder
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
    alerts: list[Alert]
    samples: list[Sample]


ALERT_TIME = "{{timenow}}"  # when an alert was sent
LANGUAGES = (
    ("Shell", "openssl and curl", "shell.sh"),
    ("PowerShell", "5.1, as in Windows, or 7", "powershell.ps1"),
    ("Python", "standard library", "python.py"),
    ("Node", "Node 18 or newer", "node.js"),
    ("PHP", "PHP 8", "php.php"),
)


def plain_text(template: str, **values: object) -> str:
    """A text that is no HTML, with these values. A page that shows it escapes the whole of it."""
    text = Engine.get_default().get_template(template)
    return "".join(text.render(Context(values, autoescape=False)))  # no SafeString


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
    elected: PairAndDirection = {
        "pair": election.pair if election else ANY_PAIR,
        "direction": election.direction if election else ANY_DIRECTION,
    }
    values = {"secret": secret, "url": url, "bot_id": bot_id, **elected, "says_when": says_when}

    def message(time: str | None, **filled_in: str) -> str:
        body = {**bodies(elected, bot_id=bot_id)["tv"], **filled_in}
        return json.dumps({**body, "sentAt": time} if says_when else body, indent=2)

    return {
        "hook": url,
        "check_hook": url.rpartition("/")[0] + "/check",
        "body": message(to_rfc3339(timezone.now())),
        "alerts": [Alert(of, message(ALERT_TIME, **members)) for of, members in ALERTS.items()],
        "samples": [
            Sample(language, needs, plain_text(f"contract/samples/{file}", **values))
            for language, needs, file in LANGUAGES
        ],
    }

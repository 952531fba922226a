"""Sample code that signs and sends one signal without changes (contract, section 3)."""

import json
from dataclasses import dataclass
from string import Template
from typing import Any

from django.utils import timezone

from desks.models import Election
from events.times import to_rfc3339
from tokens.choices import Source

# The placeholder for a secret whose value is no longer known.
SECRET = "svc_sign_…"  # noqa: S105 - a placeholder
NONCE = "<nonce>"
NOW = "<now>"
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


class Code(Template):
    """A template with ``@{name}`` placeholders, since shell and PHP use the dollar sign."""

    delimiter = "@"


_SHELL = Code("""\
secret='@{secret}'
nonce=$(openssl rand -hex 16)
body='@{body}'
time=$(date +%s)
signature=$(printf '%s.%s' "$time" "$body" | openssl dgst -sha256 -hmac "$secret" | sed 's/^.* //')
curl '@{url}' \\
  -H 'Content-Type: application/json' \\
  -H "X-SVC-Timestamp: $time" \\
  -H "X-SVC-Signature: v1=$signature" \\
  --data-binary "$body"
""")

_PYTHON = Code("""\
import hashlib, hmac, json, secrets, time, urllib.error, urllib.request

secret = "@{secret}"
body = json.dumps({@{fields}, "nonce": secrets.token_hex(16)}).encode()
stamp = str(int(time.time()))
message = stamp.encode() + b"." + body
signature = "v1=" + hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()
headers = {
    "Content-Type": "application/json",
    "X-SVC-Timestamp": stamp,
    "X-SVC-Signature": signature,
}
request = urllib.request.Request("@{url}", body, headers)
try:
    print(urllib.request.urlopen(request).read().decode())
except urllib.error.HTTPError as refusal:
    print(refusal.read().decode())
""")

_NODE = Code("""\
const crypto = require("node:crypto");

const secret = "@{secret}";
const body = JSON.stringify({ @{fields}, "nonce": crypto.randomUUID() });
const time = String(Math.floor(Date.now() / 1000));
const signature = crypto.createHmac("sha256", secret).update(`${time}.${body}`).digest("hex");
const headers = {
  "Content-Type": "application/json",
  "X-SVC-Timestamp": time,
  "X-SVC-Signature": `v1=${signature}`,
};
fetch("@{url}", { method: "POST", headers, body })
  .then((answer) => answer.text())
  .then(console.log);
""")

_PHP = Code("""\
<?php
$secret = '@{secret}';
$body = json_encode([@{fields}, 'nonce' => bin2hex(random_bytes(16))], JSON_UNESCAPED_SLASHES);
$time = (string) time();
$signature = hash_hmac('sha256', "$time.$body", $secret);
$request = stream_context_create(['http' => [
    'method' => 'POST',
    'header' => [
        'Content-Type: application/json',
        "X-SVC-Timestamp: $time",
        "X-SVC-Signature: v1=$signature",
    ],
    'content' => $body,
    'ignore_errors' => true,
]]);
echo file_get_contents('@{url}', false, $request), PHP_EOL;
""")


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


# When the signal was sent, as each language writes it.
ALERT_TIME = "{{timenow}}"
SENT_AT = {
    "Python": ', "sentAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())',
    "Node": ', "sentAt": new Date().toISOString()',
    "PHP": ", 'sentAt' => gmdate('Y-m-d\\TH:i:s\\Z')",
}
SHELL_TIME = "'\"$(date -u +%Y-%m-%dT%H:%M:%SZ)\"'"


def push(
    url: str,
    bot_id: str,
    election: Election | None,
    secret: str = SECRET,
    *,
    says_when: bool = False,
) -> dict[str, Any]:
    """The template context that shows how a bot pushes: address, body, alerts and samples.

    ``says_when`` adds when the signal was sent, for a bot whose signals have a maximum age.
    """
    body: dict[str, object] = {
        "botId": bot_id,
        "pair": election.pair if election else ANY_PAIR,
        "direction": election.direction if election else ANY_DIRECTION,
        "nonce": NONCE,
        "elected": True,
        "source": Source.TRADINGVIEW.value,
    }
    fixed = {name: value for name, value in body.items() if name != "nonce"}

    def render(code: Code, **more: str) -> str:
        return code.substitute(secret=secret, url=url, **more)

    def sent_at(time: str | None) -> dict[str, str | None]:
        return {"sentAt": time} if says_when else {}

    def fields(language: str, said: str) -> str:
        return said + SENT_AT[language] if says_when else said

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
            Sample(
                "Shell",
                "openssl and curl",
                render(_SHELL, body=_shell_body({**body, **sent_at(NOW)})),
            ),
            Sample(
                "Python",
                "standard library",
                render(_PYTHON, fields=fields("Python", _python(fixed))),
            ),
            Sample(
                "Node",
                "Node 18 or newer",
                render(_NODE, fields=fields("Node", _javascript(fixed))),
            ),
            Sample("PHP", "PHP 8", render(_PHP, fields=fields("PHP", _php(fixed)))),
        ],
    }


def _shell_body(body: dict[str, object]) -> str:
    # Ends the single quotes around the nonce and the time, so that the shell expands them.
    return json.dumps(body).replace(NONCE, "'\"$nonce\"'").replace(NOW, SHELL_TIME)


def _python(fields: dict[str, object]) -> str:
    return ", ".join(
        f'"{name}": {"True" if value is True else json.dumps(value)}'
        for name, value in fields.items()
    )


def _javascript(fields: dict[str, object]) -> str:
    return ", ".join(f'"{name}": {json.dumps(value)}' for name, value in fields.items())


def _php(fields: dict[str, object]) -> str:
    values = {name: "true" if value is True else f"'{value}'" for name, value in fields.items()}
    return ", ".join(f"'{name}' => {value}" for name, value in values.items())

"""Sample code that signs and sends one signal without changes (contract, section 3)."""

import json
from dataclasses import dataclass
from string import Template
from typing import Any

from desks.models import Election
from tokens.choices import Source

# The placeholder for a secret whose value is no longer known.
SECRET = "svc_sign_…"  # noqa: S105 - a placeholder
NONCE = "<nonce>"
ANY_PAIR = "<BASE>/<QUOTE>"
ANY_DIRECTION = "<long or short>"


# The chart platform replaces these placeholders. The result differs between two alerts, and is the
# same when the platform retries one. Placeholders never fill in the pair or the direction.
ALERT_NONCES = {
    "Strategy": "{{strategy.order.id}}-{{interval}}-{{timenow}}",
    "Indicator": "{{interval}}-{{timenow}}",
}


class _Code(Template):
    """A template with ``@{name}`` placeholders, since shell and PHP use the dollar sign."""

    delimiter = "@"


_SHELL = _Code("""\
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

_PYTHON = _Code("""\
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

_NODE = _Code("""\
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

_PHP = _Code("""\
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


def push(url: str, bot_id: str, election: Election | None, secret: str = SECRET) -> dict[str, Any]:
    """The template context that shows how a bot pushes: address, body, alerts and samples."""
    body: dict[str, object] = {
        "botId": bot_id,
        "pair": election.pair if election else ANY_PAIR,
        "direction": election.direction if election else ANY_DIRECTION,
        "nonce": NONCE,
        "elected": True,
        "source": Source.TRADINGVIEW.value,
    }
    fixed = {name: value for name, value in body.items() if name != "nonce"}

    def render(code: _Code, **more: str) -> str:
        return code.substitute(secret=secret, url=url, **more)

    return {
        "hook": url,
        "check_hook": url.rpartition("/")[0] + "/check",
        "body": json.dumps(body, indent=2),
        "alerts": [
            Alert(of, json.dumps({**body, "nonce": nonce}, indent=2))
            for of, nonce in ALERT_NONCES.items()
        ],
        "samples": [
            Sample("Shell", "openssl and curl", render(_SHELL, body=_shell_body(body))),
            Sample("Python", "standard library", render(_PYTHON, fields=_python(fixed))),
            Sample("Node", "Node 18 or newer", render(_NODE, fields=_javascript(fixed))),
            Sample("PHP", "PHP 8", render(_PHP, fields=_php(fixed))),
        ],
    }


def _shell_body(body: dict[str, object]) -> str:
    # Ends the single quotes around the nonce, so that the shell expands it.
    return json.dumps(body).replace(NONCE, "'\"$nonce\"'")


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

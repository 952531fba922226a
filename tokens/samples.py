"""Code that signs and sends one signal, to be pasted as it stands (contract, section 3)."""

import json
from dataclasses import dataclass
from string import Template
from typing import Any

from desks.models import Election
from tokens.models import Source

# Written in place of the secret where its text is no longer known.
SECRET = "svc_sign_…"  # noqa: S105 - a placeholder
NONCE = "<nonce>"
ANY_PAIR = "<BASE>/<QUOTE>"
ANY_DIRECTION = "<long or short>"


# What a chart platform puts in place of these tells one alert from the next, and is the same when
# it tries one again. Neither ever stands for the pair or the direction: those are elected.
ALERT_NONCES = {
    "Strategy": "{{strategy.order.id}}-{{interval}}-{{timenow}}",
    "Indicator": "{{interval}}-{{timenow}}",
}


class _Code(Template):
    """Code with ``@{name}`` in it, since shell and PHP have their own use for a dollar."""

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
    """Code in one language, and what it needs."""

    language: str
    needs: str
    code: str


@dataclass(frozen=True, slots=True)
class Alert:
    """The message of an alert, as it is pasted into the chart platform."""

    of: str
    message: str


def push(url: str, bot_id: str, election: Election | None, secret: str = SECRET) -> dict[str, Any]:
    """How a bot pushes, for its page: the address, the exact body, and code that sends it."""
    body: dict[str, object] = {
        "botId": bot_id,
        "pair": election.pair if election else ANY_PAIR,
        "direction": election.direction if election else ANY_DIRECTION,
        "nonce": NONCE,
        "elected": True,
        "source": Source.TRADINGVIEW.value,
    }
    fixed = {name: value for name, value in body.items() if name != "nonce"}

    def written(code: _Code, **more: str) -> str:
        return code.substitute(secret=secret, url=url, **more)

    return {
        "hook": url,
        "body": json.dumps(body, indent=2),
        "alerts": [
            Alert(of, json.dumps({**body, "nonce": nonce}, indent=2))
            for of, nonce in ALERT_NONCES.items()
        ],
        "samples": [
            Sample("Shell", "openssl and curl", written(_SHELL, body=_shell_body(body))),
            Sample("Python", "nothing installed", written(_PYTHON, fields=_python(fixed))),
            Sample("Node", "Node 18 or newer", written(_NODE, fields=_javascript(fixed))),
            Sample("PHP", "PHP 8", written(_PHP, fields=_php(fixed))),
        ],
    }


def _shell_body(body: dict[str, object]) -> str:
    # The quotes end round the nonce alone, so that the shell fills it in.
    return json.dumps(body).replace(NONCE, "'\"$nonce\"'")


def _python(fields: dict[str, object]) -> str:
    return ", ".join(
        f'"{name}": {"True" if value is True else json.dumps(value)}'
        for name, value in fields.items()
    )


def _javascript(fields: dict[str, object]) -> str:
    return ", ".join(f'"{name}": {json.dumps(value)}' for name, value in fields.items())


def _php(fields: dict[str, object]) -> str:
    written = {name: "true" if value is True else f"'{value}'" for name, value in fields.items()}
    return ", ".join(f"'{name}' => {value}" for name, value in written.items())

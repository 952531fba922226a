"""Code that receives deliveries, verifies them and answers tests, to be pasted."""

from signals.contract.samples import Code, Sample

# The placeholder for a secret whose text is no longer known.
SECRET = "whsec_…"  # noqa: S105 - a placeholder

_PYTHON = Code("""\
import base64
import hmac
import json
from http.server import BaseHTTPRequestHandler, HTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

secret = "@{secret}"
webhook = Webhook(secret)
key = base64.b64decode(secret[len("whsec_"):])


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            event = webhook.verify(body, dict(self.headers))
        except WebhookVerificationError:
            self.answer(400)
            return
        print(self.headers["webhook-id"], event["type"], event["data"], flush=True)
        if event["type"] == "subscription.test":  # prove that you know the secret
            challenge = event["data"]["challenge"].encode()
            proof = hmac.new(key, challenge, "sha256").hexdigest()
            self.answer(200, json.dumps({"challenge": proof}).encode())
        else:
            self.answer(204)

    def answer(self, status, body=b""):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)


HTTPServer(("127.0.0.1", 8080), Receiver).serve_forever()
""")

_NODE = Code("""\
const crypto = require("node:crypto");
const http = require("node:http");

const key = Buffer.from("@{secret}".slice("whsec_".length), "base64");

function verified(headers, body) {
  const id = headers["webhook-id"];
  const time = headers["webhook-timestamp"];
  if (!(Math.abs(Date.now() / 1000 - Number(time)) < 300)) return false;
  const signed = Buffer.concat([Buffer.from(`${id}.${time}.`), body]);
  const expected = crypto.createHmac("sha256", key).update(signed).digest();
  return (headers["webhook-signature"] || "").split(" ").some((one) => {
    const [version, value] = one.split(",");
    const given = Buffer.from(value || "", "base64");
    return version === "v1" && given.length === expected.length
      && crypto.timingSafeEqual(given, expected);
  });
}

http.createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  const body = Buffer.concat(parts);
  if (!verified(request.headers, body)) {
    response.writeHead(400).end();
    return;
  }
  const event = JSON.parse(body);
  console.log(request.headers["webhook-id"], event.type, JSON.stringify(event.data));
  if (event.type === "subscription.test") { // prove that you know the secret
    const proof = crypto.createHmac("sha256", key).update(event.data.challenge).digest("hex");
    response.writeHead(200).end(JSON.stringify({ challenge: proof }));
  } else {
    response.writeHead(204).end();
  }
}).listen(8080, "127.0.0.1");
""")

_PHP = Code("""\
<?php
$key = base64_decode(substr('@{secret}', strlen('whsec_')));
$body = file_get_contents('php://input');
$id = $_SERVER['HTTP_WEBHOOK_ID'] ?? '';
$time = $_SERVER['HTTP_WEBHOOK_TIMESTAMP'] ?? '';
$expected = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$time.$body", $key, true));

$good = false;
foreach (explode(' ', $_SERVER['HTTP_WEBHOOK_SIGNATURE'] ?? '') as $given) {
    $good = hash_equals($expected, $given) || $good;
}
if (!$good || abs(time() - (int) $time) > 300) {
    http_response_code(400);
    exit;
}
$event = json_decode($body, true);
error_log("$id $event[type] " . json_encode($event['data']));
if ($event['type'] === 'subscription.test') { // prove that you know the secret
    echo json_encode(['challenge' => hash_hmac('sha256', $event['data']['challenge'], $key)]);
} else {
    http_response_code(204);
}
""")

_GO = Code("""\
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"log"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

var key, _ = base64.StdEncoding.DecodeString(strings.TrimPrefix("@{secret}", "whsec_"))

func verified(headers http.Header, body []byte) bool {
	stamp := headers.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || math.Abs(float64(time.Now().Unix()-seconds)) > 300 {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(headers.Get("webhook-id") + "." + stamp + "."))
	mac.Write(body)
	expected := mac.Sum(nil)
	for _, one := range strings.Split(headers.Get("webhook-signature"), " ") {
		given, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(one, "v1,"))
		if strings.HasPrefix(one, "v1,") && err == nil && hmac.Equal(given, expected) {
			return true
		}
	}
	return false
}

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !verified(r.Header, body) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		log.Println(r.Header.Get("webhook-id"), string(body))
		var event struct {
			Type string
			Data struct{ Challenge string }
		}
		if err := json.Unmarshal(body, &event); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if event.Type != "subscription.test" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		mac := hmac.New(sha256.New, key) // prove that you know the secret
		mac.Write([]byte(event.Data.Challenge))
		proof := hex.EncodeToString(mac.Sum(nil))
		json.NewEncoder(w).Encode(map[string]string{"challenge": proof})
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", nil))
}
""")


def receivers(secret: str = SECRET) -> list[Sample]:
    """A receiver in each language, behind your own web server with HTTPS."""
    return [
        Sample("Python", "pip install standardwebhooks", _PYTHON.substitute(secret=secret)),
        Sample("Node", "18 or newer, no packages", _NODE.substitute(secret=secret)),
        Sample("PHP", "8 or newer, no packages", _PHP.substitute(secret=secret)),
        Sample("Go", "1.19 or newer, no packages", _GO.substitute(secret=secret)),
    ]

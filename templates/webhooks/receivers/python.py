import base64
import hmac
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

secret = "{{ secret }}"
webhook = Webhook(secret)
key = base64.b64decode(secret[len("whsec_"):])


class Receiver(BaseHTTPRequestHandler):
    timeout = 10  # seconds without a byte

    def do_POST(self):
        try:
            length = int(self.headers.get("Content-Length", "0"))
            if not 0 <= length <= 2**20:  # longer than any message
                raise ValueError
            event = webhook.verify(self.rfile.read(length), dict(self.headers))
        except (WebhookVerificationError, ValueError):  # ValueError: of a malformed message
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


ThreadingHTTPServer(("127.0.0.1", 8081), Receiver).serve_forever()

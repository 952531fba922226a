import hashlib, hmac, json, secrets, time, urllib.error, urllib.request

secret = "{{ secret }}"
signal = {
    "botId": "{{ bot_id }}",
    "pair": "{{ pair }}",
    "direction": "{{ direction }}",
    "elected": True,
    "source": "tradingview",{% if says_when %}
    "sentAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),{% endif %}
    "nonce": secrets.token_hex(16),
}
body = json.dumps(signal).encode()
stamp = str(int(time.time()))
message = stamp.encode() + b"." + body
signature = "v1=" + hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()
headers = {
    "Content-Type": "application/json",
    "X-SVC-Timestamp": stamp,
    "X-SVC-Signature": signature,
}
request = urllib.request.Request("{{ url }}", body, headers)
try:
    print(urllib.request.urlopen(request).read().decode())
except urllib.error.HTTPError as refusal:
    print(refusal.read().decode())

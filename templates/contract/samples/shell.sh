secret='{{ secret }}'
nonce=$(openssl rand -hex 16)
{% if says_when %}sent_at=$(date -u +%Y-%m-%dT%H:%M:%SZ)
{% endif %}body='{
  "botId": "{{ bot_id }}",
  "pair": "{{ pair }}",
  "direction": "{{ direction }}",
  "elected": true,
  "source": "tradingview",{% if says_when %}
  "sentAt": "'"$sent_at"'",{% endif %}
  "nonce": "'"$nonce"'"
}'
time=$(date +%s)
signature=$(printf '%s.%s' "$time" "$body" | openssl dgst -sha256 -hmac "$secret" | sed 's/^.* //')
curl '{{ url }}' \
  -H 'Content-Type: application/json' \
  -H "X-SVC-Timestamp: $time" \
  -H "X-SVC-Signature: v1=$signature" \
  --data-binary "$body"

<?php
$secret = '{{ secret }}';
$signal = [
    'botId' => '{{ bot_id }}',
    'pair' => '{{ pair }}',
    'direction' => '{{ direction }}',
    'elected' => true,
    'source' => 'tradingview',{% if says_when %}
    'sentAt' => gmdate('Y-m-d\TH:i:s\Z'),{% endif %}
    'nonce' => bin2hex(random_bytes(16)),
];
$body = json_encode($signal, JSON_UNESCAPED_SLASHES);
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
echo file_get_contents('{{ url }}', false, $request), PHP_EOL;

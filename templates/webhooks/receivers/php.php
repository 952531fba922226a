<?php
$key = base64_decode(substr('{{ secret }}', strlen('whsec_')));
$body = file_get_contents('php://input', false, null, 0, 2 ** 20); // no message is longer
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

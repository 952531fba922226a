{% if says_when %}$sentAt = [DateTime]::UtcNow.ToString("yyyy-MM-dd'T'HH':'mm':'ss'Z'")
{% endif %}$secret = '{{ secret }}'
$nonce = [guid]::NewGuid().ToString()
$body = '{"botId": "{{ bot_id }}", "pair": "{{ pair }}", "direction": "{{ direction }}", ' +
    '"elected": true, "source": "tradingview", {% if says_when %}"sentAt": "' + $sentAt + '", {% endif %}"nonce": "' + $nonce + '"}'
$time = [DateTimeOffset]::UtcNow.ToUnixTimeSeconds().ToString()
$utf8 = [Text.UTF8Encoding]::new($false)
$hmac = [Security.Cryptography.HMACSHA256]::new($utf8.GetBytes($secret))
$digest = $hmac.ComputeHash($utf8.GetBytes("$time.$body"))
$signature = 'v1=' + [BitConverter]::ToString($digest).Replace('-', '').ToLowerInvariant()
Add-Type -AssemblyName System.Net.Http
[Net.ServicePointManager]::SecurityProtocol = [Net.ServicePointManager]::SecurityProtocol -bor [Net.SecurityProtocolType]::Tls12
$content = [Net.Http.ByteArrayContent]::new($utf8.GetBytes($body))
$content.Headers.Add('Content-Type', 'application/json')
$content.Headers.Add('X-SVC-Timestamp', $time)
$content.Headers.Add('X-SVC-Signature', $signature)
$answer = [Net.Http.HttpClient]::new().PostAsync('{{ url }}', $content).GetAwaiter().GetResult()
$answer.Content.ReadAsStringAsync().GetAwaiter().GetResult()

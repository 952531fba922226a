const crypto = require("node:crypto");

const secret = "{{ secret }}";
const body = JSON.stringify({
  botId: "{{ bot_id }}",
  pair: "{{ pair }}",
  direction: "{{ direction }}",
  elected: true,
  source: "tradingview",{% if says_when %}
  sentAt: new Date().toISOString(),{% endif %}
  nonce: crypto.randomUUID(),
});
const time = String(Math.floor(Date.now() / 1000));
const signature = crypto.createHmac("sha256", secret).update(`${time}.${body}`).digest("hex");
const headers = {
  "Content-Type": "application/json",
  "X-SVC-Timestamp": time,
  "X-SVC-Signature": `v1=${signature}`,
};
fetch("{{ url }}", { method: "POST", headers, body })
  .then((answer) => answer.text())
  .then(console.log);

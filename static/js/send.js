// Sends one signal of a bot, signed with the secret that the page shows. The secret goes into the
// signature and nowhere else. Without this script the page shows code that sends.
"use strict";

const sending = document.querySelector("[data-send]");
const sendButton = sending?.querySelector("button");
const sendAnswer = sending?.querySelector("[role=status]");
let unanswered = null; // the body of a signal that may have been recorded
let isSending = false;

function newBody() {
  // The nonce says that this page sent it, so that nobody takes it for an alert of a chart.
  const nonce = sending.dataset.nonce + crypto.randomUUID();
  const signal = { ...JSON.parse(sending.dataset.message), nonce };
  if ("sentAt" in signal) signal.sentAt = new Date().toISOString();
  return JSON.stringify(signal);
}

// Sends the body. Returns the answer, or null if none came that says what became of the signal.
async function push(body) {
  const secret = document.querySelector("pre.value").textContent;
  const timestamp = String(Math.floor(Date.now() / 1000));
  const headers = {
    "Content-Type": "application/json",
    "X-SVC-Timestamp": timestamp,
    "X-SVC-Signature": await sign(secret, timestamp, body),
  };
  try {
    const options = { method: "POST", headers, body, credentials: "omit", redirect: "error" };
    const response = await fetch(sending.dataset.send, options);
    return { ...(await response.json()), status: response.status };
  } catch {
    return null; // the network, or something on the way that is not the service
  }
}

async function sendSignal(event) {
  if (isSending || event.detail > 1) return; // the second half of a double click
  isSending = true;
  sendAnswer.replaceChildren("Sending…");
  // The same nonce makes it safe to send again what may have been recorded.
  const again = unanswered !== null;
  const body = (unanswered ??= newBody());
  const answer = await push(body);
  if (answer && answer.status !== 429 && answer.status < 500) unanswered = null;
  sendAnswer.replaceChildren(...described(again && answer?.first ? { ...answer.first, status: 200 } : answer));
  isSending = false;
}

// What the page says of the answer, as nodes and texts.
function described(answer) {
  if (!answer) return [verdict("refused", "no answer"), " The signal may have arrived. Send it again: it counts only once."];
  const number = element("span", { className: "number", textContent: answer.status });
  if (answer.outcome) {
    const { pair, direction } = answer.signal;
    return [verdict("accepted", answer.outcome), " ", number, ` ${pair} ${direction}, on paper. Your activity shows it.`];
  }
  // In another window: whoever leaves this page does not see the secret again.
  const code = element("a", { href: answer.type, target: "_blank", rel: "noopener" });
  code.append(element("code", { textContent: answer.code }));
  const fields = (answer.errors ?? []).map((error) => ` ${error.field}: ${error.detail}`);
  return [verdict("refused", "refused"), " ", number, " ", code, ` ${answer.title}. ${answer.detail}`, ...fields];
}

function verdict(kind, text) {
  return element("span", { className: `verdict ${kind}`, textContent: text[0].toUpperCase() + text.slice(1) });
}

function element(name, properties) {
  return Object.assign(document.createElement(name), properties);
}

if (sending && canSign) {
  sendButton.addEventListener("click", sendSignal);
  sending.hidden = false;
}

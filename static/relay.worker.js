/* Signs the alerts of a chart platform, which cannot sign, and forwards them.

     alert -> this relay, at a serverless platform of yours -> the service's hook

One file without dependencies, for every platform that runs standard JavaScript modules
(export default { fetch } and Web Crypto), such as Cloudflare Workers. It does what relay.py does on
a server: the same checks, the same nonce, the same answers. The secret stays with your platform.

Variables of the platform's settings:

RELAY_SECRET         The bot's signing secret, as a variable of the type "secret". Separate several
                     with commas: the relay signs with each. At most 5.
RELAY_HOOK           The address of the hook from the bot's page: https://.../api/hooks/signal
RELAY_PATH           The secret path that receives alerts: a slash and 22 or more of A-Za-z0-9_-
RELAY_SENDERS        The addresses that may send alerts. Default: the four of TradingView
RELAY_SENDER_HEADER  The header in which your platform writes the sender's address, and which no
                     sender can set. Default: CF-Connecting-IP

The relay refuses a body that contains what looks like a secret of an exchange. Otherwise it signs
the exact bytes that it received. If a body has no nonce, the relay adds a hash of the body as
nonce, so that a retry of an alert is the same signal. The relay returns the hook's status and body,
but a 504 as 503, because the chart platform does not retry after a 504. It stores nothing and logs
no path, body or secret. `relay.py --check` checks this relay, too: see X-Relay-Check in relay.py. */

const TRADINGVIEW = "52.89.214.238,34.212.75.30,54.218.53.128,52.32.178.7";
const ANSWER_TIMEOUT = 2500; // milliseconds: the chart platform gives up after 3 seconds
const MAX_BODY = 64 * 1024; // bytes, the limit of the hook
const MAX_SIGNATURES = 5;
const CHECK_TOLERANCE = 300; // seconds
const CHECK_HEADER = "X-Relay-Check";
const WITHOUT_BODY = [101, 204, 205, 304];

const SECRET_NAME = new RegExp(
  "apikey|apisecret|privatekey|secretkey|passphrase|password|seedphrase|mnemonic|clientsecret" +
    "|(secret|accesskey|accesstoken|apitoken)$|^(key|sign|otp)$",
);
const SECRET_VALUE = /-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----|svc_(desk|plat|sign)_[0-9A-Za-z]{49}/;

const encoder = new TextEncoder();

export default {
  async fetch(request, env) {
    const requestId = crypto.randomUUID().replaceAll("-", "");
    const [answer, said] = await relay(request, env, requestId, Date.now() + ANSWER_TIMEOUT);
    console.log(`${said} (request ${requestId})`);
    return answer;
  },
};

// Returns the response, and a line about it for the log.
async function relay(request, env, requestId, until) {
  if (request.method !== "POST") {
    return ownAnswer(405, "not_an_alert", "Send alerts with POST.");
  }
  let settings;
  try {
    settings = readSettings(env);
  } catch (fault) {
    return ownAnswer(500, "settings_wrong", fault.message);
  }
  const checking = request.headers.has(CHECK_HEADER);
  const refused = await refusal(request, settings, checking);
  if (refused) {
    return refused;
  }
  const raw = await readBody(request);
  if (!raw) {
    return ownAnswer(413, "body_too_large", "The alert is longer than 64 KiB.");
  }
  if (looksSecret(raw)) {
    return ownAnswer(
      422,
      "exchange_secret",
      "The message contains what looks like a key or secret of an exchange. Take it out: the" +
        " service never needs one.",
    );
  }
  return forward(settings, raw, checking, requestId, until);
}

// --- The settings --------------------------------------------------------------------------------

// Throws an Error with a sentence that never contains a secret.
function readSettings(env) {
  const settings = {
    secrets: list(env.RELAY_SECRET ?? ""),
    hook: env.RELAY_HOOK ?? "",
    path: env.RELAY_PATH ?? "",
    senders: list(env.RELAY_SENDERS || TRADINGVIEW),
    senderHeader: env.RELAY_SENDER_HEADER || "CF-Connecting-IP",
  };
  if (!settings.secrets.length) {
    throw new Error("RELAY_SECRET is empty. It must be the complete signing secret of the bot.");
  }
  const whole = (text) => /^svc_sign_[0-9A-Za-z]{49}$/.test(text);
  if (!settings.secrets.every(whole) || settings.secrets.length > MAX_SIGNATURES) {
    throw new Error("RELAY_SECRET must be the complete signing secret from the bot's page.");
  }
  if (!isHook(settings.hook)) {
    throw new Error("RELAY_HOOK must be the https address of the hook from the bot's page.");
  }
  if (!/^\/[A-Za-z0-9_-]{22,}$/.test(settings.path)) {
    throw new Error("RELAY_PATH must be a path that nobody can guess, as the bot's page shows it.");
  }
  return settings;
}

function list(text) {
  return text.split(",").map((part) => part.trim()).filter(Boolean);
}

// Plain HTTP can be modified on the way: only to the same machine.
function isHook(text) {
  try {
    const { protocol, hostname } = new URL(text);
    return protocol === "https:" || (protocol === "http:" && hostname === "127.0.0.1");
  } catch {
    return false;
  }
}

// --- The checks ----------------------------------------------------------------------------------

// Returns the refusal of a request by its path and headers, null if it is accepted.
async function refusal(request, settings, checking) {
  const { pathname, search } = new URL(request.url);
  if (!same(pathname + search, settings.path)) {
    return ownAnswer(404, "no_such_path", "The webhook URL does not end with RELAY_PATH.");
  }
  const hops = request.headers.get(settings.senderHeader) ?? "";
  const sender = hops.split(",").at(-1).trim();
  if (!/^[0-9A-Fa-f.:]{3,45}$/.test(sender)) {
    return ownAnswer(
      403,
      "sender_unknown",
      `Your platform does not pass the sender's address in ${settings.senderHeader}.` +
        " Set RELAY_SENDER_HEADER.",
    );
  }
  if (checking) {
    if (!(await isCheck(settings.secrets, request.headers.get(CHECK_HEADER)))) {
      return ownAnswer(
        403,
        "check_invalid",
        "The relay runs with another RELAY_SECRET, or with another time. Deploy it again.",
      );
    }
  } else if (!settings.senders.includes(sender)) {
    return ownAnswer(403, "sender_unknown", `${sender} is not in RELAY_SENDERS.`);
  }
  return null;
}

// Returns whether the header proves that a check knows one of the secrets.
async function isCheck(secrets, header) {
  const [stamp] = header.split(".", 1);
  if (!/^[0-9]{10}$/.test(stamp) || Math.abs(unixTime() - Number(stamp)) > CHECK_TOLERANCE) {
    return false;
  }
  const proofs = secrets.map((key) => hmac(key, encoder.encode(`check.${stamp}`)));
  return (await Promise.all(proofs)).some((proof) => same(header, `${stamp}.${proof}`));
}

// Compares in a time that does not depend on where the texts differ.
function same(one, other) {
  let differs = one.length ^ other.length;
  for (let place = 0; place < one.length; place++) {
    differs |= one.charCodeAt(place) ^ other.charCodeAt(place % other.length);
  }
  return differs === 0;
}

// Returns the bytes of the body, null if it is too long.
async function readBody(request) {
  const parts = [];
  let length = 0;
  const reader = request.body?.getReader();
  for (let read = await reader?.read(); read && !read.done; read = await reader.read()) {
    length += read.value.length;
    if (length > MAX_BODY) {
      await reader.cancel();
      return null;
    }
    parts.push(read.value);
  }
  return joined(parts);
}

// Returns whether the text contains a secret, or the name of one before a ":" or "=".
function looksSecret(raw) {
  const text = new TextDecoder()
    .decode(raw)
    .replace(/\\u([0-9A-Fa-f]{4})/g, (_, code) => String.fromCharCode(parseInt(code, 16)));
  const names = text
    .split(/[:=]/)
    .slice(0, -1)
    .map((before) => withoutClosing(before).split(/["'`{}[\],;\n]/).at(-1));
  return (
    SECRET_VALUE.test(text) ||
    names.some((name) => SECRET_NAME.test(name.toLowerCase().replace(/[-_. ]/g, "")))
  );
}

// Removes spaces and quotes from the end. A regular expression would take quadratic time.
function withoutClosing(text) {
  let end = text.length;
  while (end && " \t\r\n\"'`\\".includes(text[end - 1])) {
    end--;
  }
  return text.slice(0, end);
}

// --- Signing and forwarding ----------------------------------------------------------------------

// Adds a nonce as the last member of a JSON object that has none. Changes no other byte.
async function withNonce(raw) {
  let text, body;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(raw);
    body = JSON.parse(text);
  } catch {
    return raw; // the hook's refusal says what is wrong
  }
  if (typeof body !== "object" || body === null || Array.isArray(body) || Object.hasOwn(body, "nonce")) {
    return raw;
  }
  const nonce = `relay-${hex(await crypto.subtle.digest("SHA-256", raw)).slice(0, 32)}`;
  const before = text.slice(0, text.lastIndexOf("}"));
  const comma = Object.keys(body).length ? "," : "";
  return encoder.encode(`${before}${comma}"nonce":"${nonce}"}`);
}

async function signingHeaders(secrets, body) {
  const now = String(unixTime());
  const message = joined([encoder.encode(`${now}.`), body]);
  const all = await Promise.all(secrets.map((key) => hmac(key, message)));
  return {
    "X-SVC-Timestamp": now,
    "X-SVC-Signature": all.map((signature) => `v1=${signature}`).join(","),
  };
}

async function forward(settings, raw, checking, requestId, until) {
  const body = await withNonce(raw);
  const hook = checking ? settings.hook.replace(/[^/]*$/, "check") : settings.hook;
  try {
    const answer = await fetch(hook, {
      method: "POST",
      body,
      headers: {
        "Content-Type": "application/json",
        "X-Request-Id": requestId,
        ...(await signingHeaders(settings.secrets, body)),
      },
      redirect: "manual",
      signal: AbortSignal.timeout(Math.max(10, until - Date.now())),
    });
    return passedOn(answer.status, await answer.text(), answer.headers.get("Content-Type"));
  } catch (fault) {
    if (fault.name === "TimeoutError" || fault.name === "AbortError") {
      return ownAnswer(503, "hook_slow", "The hook did not answer in time. Send the alert again.");
    }
    const sentence = `Cannot reach the hook (${fault.name}). Send the alert again.`;
    return ownAnswer(502, "hook_away", sentence);
  }
}

function passedOn(status, text, contentType) {
  const passed = status === 504 ? 503 : status;
  const answer = new Response(WITHOUT_BODY.includes(passed) ? null : text, {
    status: passed,
    headers: { "Content-Type": contentType ?? "text/plain" },
  });
  return [answer, summary(passed, text)];
}

// Returns a problem response of the relay itself.
function ownAnswer(status, code, detail) {
  const problem = JSON.stringify({ title: "Answer of the relay", status, code, detail });
  const headers = { "Content-Type": "application/problem+json" };
  return [new Response(problem, { status, headers }), summary(status, problem)];
}

// Returns an answer in one line: the status and the signal's outcome, or the refusal.
function summary(status, text) {
  let body;
  try {
    body = JSON.parse(text);
  } catch {
    return String(status);
  }
  const said = body?.outcome
    ? `${body.outcome}: ${body.signal?.id ?? ""}`
    : `${body?.code}: ${body?.detail}`;
  return `${status} ${said}`.replace(/[^\x20-\x7e\u00a1-\uffff]/g, " ").slice(0, 500);
}

// --- Bytes ---------------------------------------------------------------------------------------

function unixTime() {
  return Math.floor(Date.now() / 1000);
}

async function hmac(key, message) {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const imported = await crypto.subtle.importKey("raw", encoder.encode(key), algorithm, false, ["sign"]);
  return hex(await crypto.subtle.sign("HMAC", imported, message));
}

function hex(buffer) {
  return Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function joined(parts) {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

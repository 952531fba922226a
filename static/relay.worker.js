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
                     sender can set. Default at Cloudflare: CF-Connecting-IP. Required at every
                     other platform, because there any sender can set that one

The relay refuses a body that contains what looks like a secret of an exchange. Otherwise it signs
the exact bytes that it received. If a body has no nonce, the relay adds a hash of the body as
nonce, so that a retry of an alert is the same signal; a nonce that the hook does not accept is
replaced by its hash. A message of a strategy, with market_position and order_action, is forwarded
without these two if the order opens the direction of the message; to anything else, such as an
exit, the relay answers 200 with the outcome not_forwarded. It returns the hook's status and body,
but a 504 as 503, because the chart platform does not retry after a 504. It stores nothing and logs
no path, body or secret. `relay.py --check` checks this relay, too: see X-Relay-Check in relay.py. */

const TRADINGVIEW = "52.89.214.238,34.212.75.30,54.218.53.128,52.32.178.7";
const ANSWER_TIMEOUT = 2500; // milliseconds: the chart platform gives up after 3 seconds
const MAX_BODY = 64 * 1024; // bytes, the limit of the hook
const MAX_SIGNATURES = 5;
const CHECK_TOLERANCE = 300; // seconds
const CHECK_HEADER = "X-Relay-Check";
const OPENS = { long: "buy", short: "sell" }; // the order that opens a position
const STRATEGY = ["market_position", "order_action"]; // what the platform fills in for each order
const POSITIONS = ["long", "short", "flat"];
const ORDERS = ["buy", "sell"];
const WITHOUT_BODY = [101, 204, 205, 304];

const encoder = new TextEncoder();
let notForwarded = 0; // orders, since the platform started this instance

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
    settings = readSettings(env, request);
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
  if (!/^[ \t\r\n]*\{/.test(new TextDecoder().decode(raw))) {
    return ownAnswer(
      400,
      "malformed",
      "This is not JSON. TradingView sends a text of its own until you replace it: paste the message" +
        " of the bot's page into the alert.",
    );
  }
  const reason = whyNot(raw);
  if (reason) {
    const counted = checking ? "" : ` (${++notForwarded} not forwarded since the start)`;
    const answer = Response.json({ outcome: "not_forwarded", detail: reason });
    return [answer, `200 not forwarded: ${reason}${counted}`];
  }
  return forward(settings, raw, checking, requestId, until);
}

// --- The settings --------------------------------------------------------------------------------

// Throws an Error with a sentence that never contains a secret. Cloudflare alone sets request.cf, and
// no sender can.
function readSettings(env, request) {
  const settings = {
    secrets: list(env.RELAY_SECRET ?? ""),
    hook: env.RELAY_HOOK ?? "",
    path: env.RELAY_PATH ?? "",
    senders: list(env.RELAY_SENDERS || TRADINGVIEW),
    senderHeader: env.RELAY_SENDER_HEADER || (request.cf ? "CF-Connecting-IP" : ""),
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
  if (!settings.senderHeader) {
    throw new Error(
      "RELAY_SENDER_HEADER is empty. It must be the header in which your platform writes the" +
        " sender's address, and which no sender can set.",
    );
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

// Returns whether the body contains a secret: as a JSON object, otherwise as text.
function looksSecret(raw) {
  const body = parsed(raw);
  return body ? containsSecret(body) : malformedContainsSecret(new TextDecoder().decode(raw));
}

// Returns the JSON object, null if the body is none: the hook's refusal says what is wrong. It is
// none if a name is repeated, of which JSON.parse keeps the last member only.
function parsed(raw) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(raw);
    const body = JSON.parse(text);
    const isObject = typeof body === "object" && body !== null && !Array.isArray(body);
    return isObject && countNames(body) === writtenNames(text) ? body : null;
  } catch {
    return null;
  }
}

function countNames(value) {
  if (typeof value !== "object" || value === null) {
    return 0;
  }
  const own = Array.isArray(value) ? 0 : Object.keys(value).length;
  return Object.values(value).reduce((sum, member) => sum + countNames(member), own);
}

// Returns how many strings of a JSON text stand before a colon.
function writtenNames(text) {
  return [...text.matchAll(/"(?:[^"\\]|\\.)*"[ \t\r\n]*(:?)/g)].filter((found) => found[1]).length;
}

// --- The search for secrets ----------------------------------------------------------------------
//
// The service's own search, with its patterns (tokens/crypto/exchange_secrets.py). Those that match
// more than ASCII have the flag u: they count characters, as the service does, not UTF-16 units.

// The name of a field that holds a secret, in lower case and without separators.
const FIELD = new RegExp(
  String.raw`apikey|apisecret|privatekey|privkey|secretkey|clientsecret|credential|mnemonic|passphrase` +
    String.raw`|passwd|password|pwd|(?:backup|recovery|secret|seed|wallet)phrase` +
    String.raw`|(?:creds|secret|(?:access|api|auth|bearer|refresh|security|session)token` +
    String.raw`|(?:access|account|auth|broker|encryption|exchange|gpg|hmac|master|pgp|signing|ssh|trading` +
    String.raw`|venue|wallet|alpaca|binance|bitfinex|bitget|bitmex|bitstamp|bybit|coinbase|cryptocom|deribit` +
    String.raw`|dydx|gateio|gemini|htx|huobi|hyperliquid|kraken|kucoin|mexc|okex|okx)key)s?` +
    String.raw`(?:base64|data|encrypted|hex|pem|plain|raw|string|text|value)?v?[0-9]*$` +
    String.raw`|^(?:keys?|otp|sign)[0-9]*$`,
);
// A name in lower-case text: of a password, of another secret, or one that has other meanings, too.
// The first characters are repeated in front because that makes the search several times faster.
const NAME = new RegExp(
  String.raw`(?=[abcejkmoprstw])(?:` +
    String.raw`((?:pass[-_. ]?(?:code|phrase|word)|passwd)[a-z0-9_.-]{0,32}` +
    String.raw`|(?:(?<![a-z0-9])|(?<=%[0-9a-f]{2})|(?<=mt[45]))(?:otp|pwd)s?(?:code|hash|value)?[0-9]{0,3}` +
    String.raw`(?:[-_.][a-z0-9_.-]{0,32})?(?![a-z0-9]))` +
    String.raw`|((?:(?:api|priv(?:ate)?|secret|access|account|auth|broker|exchange|master|signing|trading` +
    String.raw`|wallet|binance|bitget|bybit|coinbase|kraken|kucoin|okx)[-_. ]?key|secret|credential` +
    String.raw`|(?:access|api|auth|bearer|refresh|session)[-_. ]?token)[a-z0-9_.-]{0,32})` +
    String.raw`|((?:authorization|auth|bearer|jwt|key|pass|seed|sign|token)s?` +
    String.raw`(?:[-_. ]?(?:data|hex|raw|string|text|v?[0-9]{1,3}|value))?(?![a-z0-9_-])))`,
  "g",
);
// Before a name that has other meanings: together they name no secret. The end is not $: only Python
// finds that before a last line break, too.
const HARMLESS = new RegExp(
  String.raw`(?:cache|cursor|foreign|idempotency|next|order|page|partition|position|primary|public|routing` +
    String.raw`|row|signal|sort|strategy|trade)[-_. ]?\n?(?![\s\S])`,
  "i",
);
// After a name: what separates it from its value, and the value.
const VALUE = new RegExp(
  String.raw`([ \t\r\n\x22'\x60\\)\[\]0-9*#\u00ab\u00bb\u2018\u2019\u201c\u201d]{0,6}` +
    String.raw`(?:->|[:=>|,;~]{1,4}|[^\x00-\x7f]{1,4}|%3[ad]|is[ \t]|-[ \t])` +
    String.raw`[ \t\r\n\x22'\x60\\(\[{<*\u00ab\u00bb\u2018\u2019\u201c\u201d]{0,6}` +
    String.raw`|[ \t\r\n\x22'\x60\\(.\u00ab\u00bb\u2018\u2019\u201c\u201d]{1,6})` +
    String.raw`(?:basic |bearer )?([a-z0-9+/_~!@$%^*.-]{4,160})`,
  "iuy",
);
// The same, after one to three words: "api key for binance: ...".
const VALUE_AFTER_WORDS = new RegExp(
  String.raw`(?:[ \t]\(?[a-z]{1,12}\)?){1,3}[ \t\"'\x60]{0,3}(?:[:=]|is[ \t])[ \t\"'\x60]{0,3}` +
    String.raw`([a-z0-9+/_-]{4,160})`,
  "iy",
);
// The words of a wallet: at least twelve.
const WALLET = new RegExp(
  String.raw`(?:mnemonic|(?:backup|recovery|secret|seed|wallet)[-_. ]?(?:phrase|words)|seed)s?` +
    String.raw`(?:[^a-z]{0,6}[:=\x22'\x60]|[ \t]is)((?:[^a-z]{0,8}[a-z]{3,8}(?![a-z])){12})`,
  "gu",
);
// Words that most sentences have, and no wallet.
const SENTENCE = new RegExp(String.raw`(?<![a-z])(?:and|are|but|for|from|not|the|was|with|your)(?![a-z])`, "i");
const WALLET_ADDRESS = new RegExp(String.raw`^0x[0-9a-f]{40}$`, "i");
const UUID = new RegExp(String.raw`[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`, "i");
const PRIVATE_KEY = new RegExp(String.raw`-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}`, "i");
const UPPER = new RegExp(String.raw`[A-Z]+`, "g");
const SEPARATORS = new RegExp(String.raw`[\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f]+`, "g");
const INVISIBLE = new RegExp(String.raw`[\u00ad\u034f\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]`, "g");
const ESCAPE = new RegExp(String.raw`\\u([0-9A-Fa-f]{4})`, "g");
// What is normalized at once: to sort a run of combining marks takes quadratic time.
const PART = new RegExp(String.raw`[\s\S]{1,1000}`, "gu");
const BREAK = new RegExp(String.raw`[\"'\x60{}\[\],;&?\n]`);
const ALPHANUMERIC = new RegExp(String.raw`[A-Za-z0-9]+`, "g");
const CHANGE = new RegExp(String.raw`[a-z](?=[A-Z0-9])|[A-Z](?=[a-z0-9])|[0-9](?=[A-Za-z])`, "g");
const CREDENTIAL = /svc_(?:desk|plat|sign)_[0-9A-Za-z]{49}|whsec_[0-9A-Za-z+/]{40}/;

// Returns whether the text contains a private key, or a credential of the service.
function isSecret(text) {
  return PRIVATE_KEY.test(text) || CREDENTIAL.test(text);
}

// Returns whether a JSON value contains, at any depth, a secret or a key that names one.
function containsSecret(value) {
  if (typeof value === "string") {
    return textContainsSecret(value);
  }
  if (Array.isArray(value)) {
    return value.some(containsSecret);
  }
  const members = value === null ? [] : Object.entries(value);
  return members.some(([name, member]) => memberIsSecret(name, member));
}

// Returns whether a member of a JSON object is, contains or names a secret.
function memberIsSecret(name, value) {
  const plain = normalized(name);
  if (isSecretName(plain) || isSecret(plain) || containsSecret(value)) {
    return true;
  }
  const text = typeof value === "string" ? `${plain}: ${value}` : plain;
  return assignsSecret(normalized(text));
}

// Returns whether text contains a secret, or the name of one and what looks like its value.
function textContainsSecret(text) {
  const plain = normalized(text);
  return isSecret(plain) || assignsSecret(plain);
}

// Returns whether text that should be JSON contains a secret, or a name of one before ":" or "=".
// As in JSON, the name is enough: the message is refused in any case.
function malformedContainsSecret(text) {
  const plain = normalized(text);
  const parts = plain.split(/[:=]/).slice(0, -1);
  const names = parts.map((part) => withoutClosing(part).split(BREAK).at(-1));
  return textContainsSecret(plain) || names.some(isSecretName);
}

// Returns whether a key is one that usually holds a secret.
function isSecretName(name) {
  const joined = normalized(name).replace(SEPARATORS, "").toLowerCase();
  return FIELD.test(joined);
}

// Returns the text as a reader sees it: escapes and compatibility characters replaced.
function normalized(text) {
  const plain = text.replace(ESCAPE, (_, code) => String.fromCharCode(parseInt(code, 16)));
  return plain.replace(PART, (part) => part.normalize("NFKC")).replace(INVISIBLE, "");
}

// Returns whether the text contains the name of a secret, followed by what looks like its value.
function assignsSecret(text) {
  const lower = text.replace(UPPER, (found) => found.toLowerCase());
  if ([...lower.matchAll(NAME)].some((name) => isAssignment(text, name))) {
    return true;
  }
  return [...lower.matchAll(WALLET)].some((words) => !SENTENCE.test(words[1]));
}

// Returns whether a value that looks like a secret follows the name.
function isAssignment(text, name) {
  const end = name.index + name[0].length;
  const near = matchAt(VALUE, text, end);
  const value = near ? near[2] : "";
  if (name[1]) {
    return near !== null && /[^\s\x85]/.test(near[1]) && isPassword(value);
  }
  if (name[2]) {
    if (isRandom(value, 8) || isRandom(text.slice(name.index, end), 16)) {
      return true;
    }
    const far = matchAt(VALUE_AFTER_WORDS, text, end);
    return far !== null && isRandom(far[1], 12);
  }
  if (!isRandom(value, 16) || WALLET_ADDRESS.test(value)) {
    return false;
  }
  return !HARMLESS.test(text.slice(Math.max(0, name.index - 12), name.index));
}

function matchAt(pattern, text, place) {
  pattern.lastIndex = place;
  return pattern.exec(text);
}

// Returns whether six letters and digits, a digit among them, stand together.
function isPassword(value) {
  return runs(value).some((run) => run.length >= 6 && /[0-9]/.test(run));
}

// Returns whether the value looks random: in a long run, letters and digits alternate often. Below 16
// characters, which follow the name of nothing but a secret, a UUID counts, and any long run with
// letters and digits, or with many letters of both cases.
function isRandom(value, least) {
  if (least < 16 && UUID.test(value)) {
    return true;
  }
  return runs(value).some((run) => {
    if (run.length < least) {
      return false;
    }
    const changes = (run.match(CHANGE) ?? []).length;
    const mixed = /[0-9]/.test(run) && /[A-Za-z]/.test(run);
    if (mixed && changes >= Math.max(3, run.length / 6)) {
      return true;
    }
    const capitals = (run.match(/[A-Z]/g) ?? []).length;
    const many = mixed || (run.length / 4 <= capitals && capitals <= (3 * run.length) / 4);
    return least < 16 && run.length >= 16 && many;
  });
}

function runs(value) {
  return value.match(ALPHANUMERIC) ?? [];
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

// Returns the body for the hook: with a valid nonce, and without what describes an order. Changes no
// other byte if it only adds a nonce, and none if there is nothing to do.
async function toForward(raw) {
  const body = parsed(raw);
  if (!body) {
    return raw;
  }
  const members = Object.entries(body).filter(([name]) => !STRATEGY.includes(name));
  const sent = new Map(members);
  const nonce = sent.get("nonce");
  if (typeof nonce === "string" && !nonce.trim()) {
    sent.delete("nonce");
  } else if (typeof nonce === "string" && !/^[!-~]{1,128}$/.test(nonce)) {
    sent.set("nonce", await digest(encoder.encode(nonce)));
  }
  const count = Object.keys(body).length;
  if (sent.has("nonce")) {
    return sent.size === count && sent.get("nonce") === nonce ? raw : written(sent);
  }
  if (sent.size < count) {
    return written(sent.set("nonce", await digest(raw)));
  }
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(raw);
  const before = text.slice(0, text.lastIndexOf("}"));
  return encoder.encode(`${before}${count ? "," : ""}"nonce":"${await digest(raw)}"}`);
}

// From its members, because an assignment to a member named __proto__ makes no member.
function written(members) {
  const texts = [...members].map((member) => member.map((part) => JSON.stringify(part)).join(":"));
  return encoder.encode(`{${texts.join(",")}}`);
}

// Returns a nonce that is always the same for these bytes.
async function digest(bytes) {
  return `relay-${hex(await crypto.subtle.digest("SHA-256", bytes)).slice(0, 32)}`;
}

// Returns why the order of a strategy is not forwarded, empty if it is, or if there is none.
function whyNot(raw) {
  const body = parsed(raw) ?? {};
  const direction = body.direction;
  if (!Object.keys(OPENS).includes(direction) || !STRATEGY.some((name) => Object.hasOwn(body, name))) {
    return "";
  }
  const [position, order] = STRATEGY.map((name) => body[name]);
  if (!POSITIONS.includes(position) || !ORDERS.includes(order)) {
    return (
      "market_position and order_action are not what the platform fills in for a strategy." +
      " Use this message for alerts of a strategy only, and do not change these members."
    );
  }
  if (position !== direction) {
    return `The position after the order (${order}) is ${position}: it opens no ${direction}.`;
  }
  return order === OPENS[direction] ? "" : `The order (${order}) reduces the ${direction} position.`;
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
  const body = await toForward(raw);
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
    ? `${body.outcome}: ${body.wouldBe ?? body.signal?.id ?? ""}`
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

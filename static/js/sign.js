// Signs as the hook asks for (contract, section 3), with the browser's own cryptography.
"use strict";

const canSign = Boolean(globalThis.crypto?.subtle); // browsers offer it over HTTPS and on localhost only

// Returns the value of X-SVC-Signature. ``timestamp`` is the Unix time in seconds; all three are texts.
async function sign(secret, timestamp, body) {
  const text = new TextEncoder();
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", text.encode(secret), algorithm, false, ["sign"]);
  const message = text.encode(`${timestamp}.${body}`);
  const bytes = new Uint8Array(await crypto.subtle.sign("HMAC", key, message));
  return "v1=" + Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

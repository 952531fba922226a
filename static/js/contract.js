// The contract's page computes a signature while one types. Nothing that is typed leaves the page.
"use strict";

const form = document.querySelector(".sign");
const signature = form.querySelector("output");
let latest = 0;

async function showSignature() {
  const [secret, timestamp, body] = ["secret", "timestamp", "body"].map(
    (name) => document.getElementById(`sign-${name}`).value,
  );
  const own = ++latest; // a slower earlier computation must not replace a later one
  const made = secret ? await sign(secret, timestamp, body) : "";
  if (own === latest) signature.textContent = made || "Type a secret.";
}

if (canSign) {
  form.addEventListener("input", showSignature);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  showSignature();
}

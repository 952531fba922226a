// Keeps the overview current: fetches the page when there are new events, and every minute because its
// parts cover the last hour and day. Replaces those that changed.
"use strict";

const SPACING = 5000; // milliseconds between two updates
const MAX_AGE = 60000;
const UPDATES = "This page updates itself.";
const live = document.querySelector("[data-live]");
const bar = document.querySelector(".updates");
const status = bar.querySelector("[data-live-status]");
const button = bar.querySelector("button");
let paused = false;

async function update() {
  if (paused || document.hidden) return;
  try {
    const answer = await fetch(location.pathname, { redirect: "error" });
    if (!answer.ok) throw new Error(answer.status);
    const text = await answer.text();
    if (paused) return; // since it was asked for
    replace(text);
    say(`${UPDATES} Last at ${new Date().toLocaleTimeString("en-GB")}.`);
  } catch (failure) {
    if (paused) return;
    say("Not updated: the service does not answer, or you are signed out. Reload the page.");
    throw failure;
  }
}

function say(sentence) {
  status.textContent = sentence;
}

function replace(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html"); // safe: same origin, escaped
  for (const part of live.children) {
    if (!part.matches(":active")) replacePart(part, fresh.getElementById(part.id));
  }
}

button.addEventListener("click", () => {
  paused = !paused;
  button.textContent = paused ? "Update again" : "Stop updating";
  say(paused ? "This page no longer updates itself. The service runs on." : UPDATES);
  if (!paused) updateSoon();
});

bar.hidden = false;
say(UPDATES);
const updateSoon = hearNews(live.dataset.live, update, SPACING);
setInterval(updateSoon, MAX_AGE);

// Keeps the overview current: fetches its parts when there are new events, and every minute because
// they cover the last hour and day. Replaces those that changed. Shows the values of a chart for the bar under the pointer or the focus.
"use strict";

const SPACING = 5000; // milliseconds between two updates
const MAX_AGE = 60000;
const UPDATES = "This page updates itself.";
const live = document.querySelector("[data-live]");
const bar = document.querySelector(".live");
const status = bar.querySelector("[data-live-status]");
const button = bar.querySelector("button");
let paused = false;

async function update() {
  if (paused || document.hidden) return;
  try {
    const answer = await fetch("?fragment=1", { redirect: "error" });
    if (!answer.ok) throw new Error(answer.status);
    replace(await answer.text());
    say(`${UPDATES} Last at ${new Date().toLocaleTimeString("en-GB")}.`);
  } catch (failure) {
    say("Not updated: the service does not answer, or you are signed out. Reload the page.");
    throw failure;
  }
}

function say(sentence) {
  status.textContent = sentence;
}

function replace(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html"); // safe: same origin, escaped
  const focused = document.activeElement?.id;
  for (const part of fresh.body.children) {
    const shown = document.getElementById(part.id);
    if (!shown || shown.dataset.source === part.innerHTML || shown.matches(":active")) continue;
    const open = Array.from(shown.querySelectorAll("details[open]"), (each) => each.id);
    shown.innerHTML = part.innerHTML;
    shown.dataset.source = part.innerHTML;
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  }
  showLocalTimes(live);
  startCharts();
  if (focused && document.activeElement === document.body) document.getElementById(focused)?.focus();
}

// --- Charts: one stop of the Tab key each, then the arrow keys -----------------------------------

function startCharts() {
  for (const chart of live.querySelectorAll("[data-chart]")) {
    if (!chart.querySelector(".bar[tabindex]")) {
      for (const each of chart.querySelectorAll(".bar")) each.setAttribute("tabindex", "-1");
      chart.querySelector(".bar:last-of-type").setAttribute("tabindex", "0");
    }
  }
}

function showValue(event) {
  const chosen = event.target.closest?.(".bar");
  if (!chosen) return;
  const value = chosen.closest("[data-chart]").querySelector("[data-value]");
  value.hidden = false;
  value.textContent = chosen.getAttribute("aria-label");
}

function move(event) {
  const step = { ArrowLeft: "previousElementSibling", ArrowRight: "nextElementSibling" }[event.key];
  const next = step && event.target.closest?.(".bar")?.[step];
  if (!next?.matches(".bar")) return;
  event.preventDefault();
  event.target.setAttribute("tabindex", "-1");
  next.setAttribute("tabindex", "0");
  next.focus();
}

live.addEventListener("pointerover", showValue);
live.addEventListener("focusin", showValue);
live.addEventListener("keydown", move);
button.addEventListener("click", () => {
  paused = !paused;
  button.textContent = paused ? "Update again" : "Stop updating";
  say(paused ? "This page no longer updates itself. The service runs on." : UPDATES);
  if (!paused) updateSoon();
});

bar.hidden = false;
say(UPDATES);
startCharts();
const updateSoon = hearNews(live.dataset.live, update, SPACING);
setInterval(updateSoon, MAX_AGE);

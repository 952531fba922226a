// The form of a bot's alarm: its radio enables "every", a button chooses a usual time, and a sentence
// says when the bot would be silent if the form were saved now. Without it all fields are enabled.
"use strict";

const form = document.querySelector("[data-alarm]");
const { expected, every, unit, grace } = form.elements;
const preview = form.querySelector("[data-preview]");
const presets = form.querySelector(".presets");
const MINUTES = { minutes: 1, hours: 60, days: 1440 };
const DEFAULT_GRACE = 5; // minutes, where the field is empty
const ZONE = { timeZone: form.dataset.zone };
const clock = new Intl.DateTimeFormat("en-GB", { ...ZONE, hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { ...ZONE, weekday: "short", day: "numeric", month: "short" });

// When the bot is late at first, if it is saved now; null if it is never, or not known yet.
function deadline() {
  const minutes = expected.value === "every" ? every.value * MINUTES[unit.value] : 0;
  if (expected.value === "not" || !expected.value || (expected.value === "every" && !minutes)) return null;
  const from = expected.value === "every" ? Date.now() : Date.parse(form.dataset.midnight);
  return new Date(from + (minutes + Number(grace.value || DEFAULT_GRACE)) * 60000);
}

const state = () => [expected, every, unit, grace].map((each) => each.value).join();
const saved = state();

function show() {
  every.disabled = unit.disabled = expected.value !== "every";
  const at = deadline();
  preview.hidden = !at || state() === saved;
  if (preview.hidden) return;
  const when = day.format(at) === day.format(new Date()) ? clock.format(at) : `${day.format(at)}, ${clock.format(at)}`;
  preview.textContent = `Saved now, and without an accepted signal, the bot is silent at ${when}.`;
}

presets.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  [every.value, unit.value] = button.value.split(" ");
  expected.value = "every";
  show();
});
presets.hidden = false;
form.addEventListener("input", show);
setInterval(show, 30000);
show();

// Keeps relative times current. The tooltip becomes the full time in the browser's time
// zone, unless the user chose a zone, in which the page shows it.
// Without it, times are relative to when the page was loaded, with UTC as tooltip.
"use strict";

const REFRESH_INTERVAL = 30000; // milliseconds
const UNITS = { year: 31536000, month: 2592000, day: 86400, hour: 3600, minute: 60 }; // seconds
const relativeFormat = new Intl.RelativeTimeFormat("en-GB");
const fullFormat = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "long" });

function relative(at) {
  // The same as relative() in events/times.py.
  const seconds = (at - Date.now()) / 1000;
  for (const [unit, length] of Object.entries(UNITS)) {
    if (Math.abs(seconds) >= length) return relativeFormat.format(Math.trunc(seconds / length), unit);
  }
  return seconds > 0 ? "in less than a minute" : "just now";
}

function lasted(since) {
  // The same as span() in events/times.py.
  const seconds = (Date.now() - since) / 1000;
  for (const [unit, length] of Object.entries(UNITS)) {
    if (seconds < length) continue;
    const format = new Intl.NumberFormat("en-GB", { style: "unit", unit, unitDisplay: "long" });
    return format.format(Math.trunc(seconds / length));
  }
  return "less than a minute";
}

function showLocalTimes(within) {
  for (const time of within.querySelectorAll("time[data-relative]")) {
    const at = new Date(time.dateTime);
    if (!("zoned" in time.dataset)) time.title = fullFormat.format(at);
    const row = time.closest(".events li, .events summary"); // covered by its link
    if (row) row.title = time.title;
    time.textContent = time.dataset.relative === "lasting" ? lasted(at) : relative(at);
  }
}

showLocalTimes(document);
setInterval(() => showLocalTimes(document), REFRESH_INTERVAL);

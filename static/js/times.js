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

function showLocalTimes(within) {
  for (const time of within.querySelectorAll("time[data-relative]")) {
    const at = new Date(time.dateTime);
    if (!("zoned" in time.dataset)) time.title = fullFormat.format(at);
    const row = time.closest(".events li, .events summary"); // covered by its link
    if (row) row.title = time.title;
    time.textContent = relative(at);
  }
}

showLocalTimes(document);
setInterval(() => showLocalTimes(document), REFRESH_INTERVAL);

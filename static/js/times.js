// Shows every time in the reader's time zone. A whole time keeps UTC as its tooltip; a relative one
// ("3 minutes ago") keeps the whole time as its tooltip. Without it, times are in UTC.
"use strict";

const localFormat = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const zoneFormat = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "numeric", hour: "numeric", minute: "2-digit", second: "2-digit",
  timeZoneName: "short",
});

function showLocalTimes(within) {
  for (const time of within.querySelectorAll("time[data-local]")) {
    time.title = time.textContent;
    time.textContent = localFormat.format(new Date(time.dateTime));
    time.removeAttribute("data-local");
  }
  for (const time of within.querySelectorAll("time[data-ago]")) {
    time.title = zoneFormat.format(new Date(time.dateTime));
    time.removeAttribute("data-ago");
  }
}

showLocalTimes(document);

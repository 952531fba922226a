// Shows every time in the reader's time zone, with UTC as tooltip. Without it, times are in UTC.
"use strict";

const localFormat = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

function showLocalTimes(within) {
  for (const time of within.querySelectorAll("time[data-local]")) {
    time.title = time.textContent;
    time.textContent = localFormat.format(new Date(time.dateTime));
    time.removeAttribute("data-local");
  }
}

showLocalTimes(document);

// Tells every time in the reader's own zone, and UTC when pointed at. Without it times are in UTC.
"use strict";

const inWords = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

function showLocalTimes(within) {
  for (const time of within.querySelectorAll("time[data-local]")) {
    time.title = time.textContent;
    time.textContent = inWords.format(new Date(time.dateTime));
    time.removeAttribute("data-local");
  }
}

showLocalTimes(document);

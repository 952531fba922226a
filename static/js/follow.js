// Polls for new events and replaces the page's list when it has changed. Pauses while the page is
// hidden. Without it, the list stays as it was when the page was loaded.
"use strict";

const POLL_INTERVAL = 3000; // milliseconds
const MAX_POLL_INTERVAL = 60000;

for (const list of document.querySelectorAll("[data-follow]")) {
  const address = new URL(location.href);
  address.searchParams.set("fragment", "1");
  let shown = null;
  let pause = POLL_INTERVAL;

  async function poll() {
    if (!document.hidden) {
      try {
        const answer = await fetch(address, { redirect: "error" });
        if (!answer.ok) throw new Error(answer.status);
        replace(await answer.text());
        pause = POLL_INTERVAL;
      } catch {
        pause = Math.min(2 * pause, MAX_POLL_INTERVAL); // signed out, or the service is down
      }
    }
    setTimeout(poll, pause);
  }

  function replace(text) {
    if (text === shown) return;
    const known = new Set(Array.from(list.querySelectorAll("li"), (line) => line.id));
    list.innerHTML = text; // safe: from the same origin, escaped by the template
    for (const line of list.querySelectorAll("li")) {
      if (!known.has(line.id)) line.classList.add("new");
    }
    showLocalTimes(list);
    shown = text;
  }

  setTimeout(poll, POLL_INTERVAL);
}

// Shows what comes by itself: asks the page for its list of events again, and replaces it when it
// is another one. It stops while nobody looks. Without it the page is as it was when it was opened.
"use strict";

const EVERY = 3000; // milliseconds
const SLOWEST = 60000;

for (const list of document.querySelectorAll("[data-follow]")) {
  const address = new URL(location.href);
  address.searchParams.set("fragment", "1");
  let shown = null;
  let pause = EVERY;

  async function look() {
    if (!document.hidden) {
      try {
        const answer = await fetch(address, { redirect: "error" });
        if (!answer.ok) throw new Error(answer.status);
        replace(await answer.text());
        pause = EVERY;
      } catch {
        pause = Math.min(2 * pause, SLOWEST); // signed out, or the service is away
      }
    }
    setTimeout(look, pause);
  }

  function replace(text) {
    if (text === shown) return;
    const known = new Set(Array.from(list.querySelectorAll("li"), (line) => line.id));
    list.innerHTML = text; // our own page's, as the browser got it when it was opened
    for (const line of list.querySelectorAll("li")) {
      if (!known.has(line.id)) line.classList.add("new");
    }
    showLocalTimes(list);
    shown = text;
  }

  setTimeout(look, EVERY);
}

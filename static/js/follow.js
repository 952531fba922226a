// Polls for new events, replaces the page's list and says how many are new. Pauses while the page is
// hidden. Without it, the list stays as it was when the page was loaded.
"use strict";

const POLL_INTERVAL = 3000; // milliseconds
const MAX_POLL_INTERVAL = 60000;

for (const list of document.querySelectorAll("[data-follow]")) {
  const news = list.parentElement.querySelector("[data-news]");
  const address = new URL(location.href);
  address.searchParams.set("fragment", "1");
  const known = new Set(idsIn(list));
  let added = 0;
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
    if (list.contains(document.activeElement)) return; // the reader's place in the list stays
    const parsed = document.createElement("template");
    parsed.innerHTML = text; // safe: from the same origin, escaped by the template
    const fresh = idsIn(parsed.content).filter((id) => !known.has(id));
    list.replaceChildren(parsed.content);
    for (const id of fresh) {
      known.add(id);
      document.getElementById(id).classList.add("new");
    }
    added += fresh.length;
    if (fresh.length && news) news.textContent = `${added} new`;
    showLocalTimes(list);
  }

  setTimeout(poll, POLL_INTERVAL);
}

function idsIn(within) {
  return Array.from(within.querySelectorAll(".events > li"), (line) => line.id);
}

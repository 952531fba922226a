// Adds new events to the page's list and says how many are new. Without it, the list stays as it was
// when the page was loaded.
//
// ``data-follow`` is the address of the stream. The list is fetched as a fragment of the page, or with
// ``data-whole`` as part of the whole page, which takes the service longer.
"use strict";

const LINES = ".events > li, #result_list > tbody > tr";
const SPACING = 500; // milliseconds between two checks
const SPACING_OF_PAGES = 5000;

for (const list of document.querySelectorAll("[data-follow]")) {
  const news = list.parentElement.querySelector("[data-news]");
  const isWhole = "whole" in list.dataset;
  const address = new URL(location.href);
  if (!isWhole) address.searchParams.set("fragment", "1");
  const known = new Set(linesIn(list).map(keyOf));
  let added = 0;

  async function check() {
    const answer = await fetch(address, { redirect: "error" });
    if (!answer.ok) throw new Error(answer.status);
    const parsed = document.createElement("template");
    parsed.innerHTML = await answer.text(); // safe: from the same origin, escaped by the template
    const content = isWhole ? parsed.content.querySelector("[data-follow]") : parsed.content;
    const fresh = linesIn(content).filter((line) => !known.has(keyOf(line)));
    if (fresh.length) add(fresh, content);
  }

  function add(fresh, content) {
    const length = linesIn(content).length;
    for (const line of fresh) {
      known.add(keyOf(line));
      line.classList.add("new");
    }
    const newest = linesIn(list)[0];
    if (newest) newest.before(...fresh);
    else list.replaceChildren(...content.childNodes);
    // The oldest ones make room, unless the reader's focus is there.
    for (const line of linesIn(list).slice(length)) {
      if (!line.contains(document.activeElement)) line.remove();
    }
    added += fresh.length;
    if (news) news.textContent = `${added} new`;
    showLocalTimes(list);
  }

  hearNews(list.dataset.follow, check, isWhole ? SPACING_OF_PAGES : SPACING);
}

function linesIn(within) {
  return Array.from(within.querySelectorAll(LINES));
}

function keyOf(line) {
  return line.id || line.querySelector("a").getAttribute("href");
}

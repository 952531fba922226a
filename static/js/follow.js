// Adds new events to the page's list and says how many are new. Without it, the list stays as it was
// when the page was loaded.
//
// ``data-follow`` is the address of the stream. The list is fetched as a fragment of the page, or with
// ``data-whole`` as part of the whole page, which takes the service longer. Then the other parts that
// an event may change, each named by ``data-part``, are shown as they are in the same answer. So the
// page never contradicts itself.
"use strict";

const LINES = ".events > li, #result_list > tbody > tr";
const SPACING = 500; // milliseconds between two checks
const SPACING_OF_PAGES = 2000;
const FIELDS = "input:not([type=hidden]), textarea, select";

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
    // A click counts only if what was pressed is still there when it is released: check again later.
    if (document.querySelector(":active")) throw new Error("Something is being pressed.");
    const content = isWhole ? parsed.content.querySelector("[data-follow]") : parsed.content;
    const fresh = linesIn(content).filter((line) => !known.has(keyOf(line)));
    if (fresh.length) add(fresh, content);
    if (isWhole) replaceParts(parsed.content);
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

function replaceParts(page) {
  for (const part of document.querySelectorAll("[data-part]")) {
    const fresh = page.querySelector(`[data-part="${part.dataset.part}"]`);
    if (!fresh || isBeingFilledIn(part)) continue;
    if (asksForAnother(part, fresh)) {
      askToReload(part);
      continue;
    }
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    const open = Array.from(part.querySelectorAll("details"), (each) => each.open);
    part.replaceChildren(...fresh.childNodes);
    part.querySelectorAll("details").forEach((each, index) => (each.open = open[index] ?? false));
    if (focused) sameAs(focused, part)?.focus();
    showLocalTimes(part);
  }
}

// Nobody enrols by accident: a form that asks for consent never appears or changes under the pointer.
function asksForAnother(part, fresh) {
  const card = fresh.querySelector("[data-consent]")?.dataset.consent;
  return card !== undefined && card !== part.querySelector("[data-consent]")?.dataset.consent;
}

function askToReload(part) {
  if (part.querySelector("[data-outdated]")) return;
  const note = document.createElement("p");
  note.dataset.outdated = "";
  note.setAttribute("role", "status");
  note.append("The published card has changed. ");
  const link = document.createElement("a");
  link.href = location.href;
  link.textContent = "Reload this page";
  note.append(link, " to see it.");
  part.prepend(note);
}

// What somebody types is not taken away.
function isBeingFilledIn(part) {
  const fields = Array.from(part.querySelectorAll(FIELDS));
  return fields.some((field) => field === document.activeElement || isChanged(field));
}

function isChanged(field) {
  if (field.options) return Array.from(field.options).some((each) => each.selected !== each.defaultSelected);
  return field.value !== field.defaultValue || field.checked !== field.defaultChecked;
}

// The link or button in this part that was there before.
function sameAs(before, part) {
  const each = Array.from(part.querySelectorAll(before.localName));
  return each.find((one) => one.textContent === before.textContent && one.href === before.href);
}

function linesIn(within) {
  return Array.from(within.querySelectorAll(LINES));
}

function keyOf(line) {
  return line.id || line.querySelector("a").getAttribute("href");
}

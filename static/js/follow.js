// Adds new events to the page's list and says how many are new. Without it, the list stays as it was
// when the page was loaded.
//
// ``data-follow`` is the address of the stream. The list is fetched as a fragment of the page, or with
// ``data-whole`` as part of the whole page, which takes the service longer. Then the other parts that
// an event may change, each named by ``data-part``, are shown as they are in the same answer. So the
// page never contradicts itself. While a part says with ``data-pending`` that something is under way,
// which is no event when it is done, the page is also fetched again after a pause that grows.
//
// A row shows an event, or folds several. It stays the same element as long as it shows the same ones.
"use strict";

const LIST = ".events, #result_list > tbody";
const SPACING = 500; // milliseconds between two checks
const SPACING_OF_PAGES = 2000;
const MAX_PENDING_PAUSE = 10000;
const FIELDS = "input:not([type=hidden]), textarea, select";

for (const list of document.querySelectorAll("[data-follow]")) {
  const news = list.parentElement.querySelector("[data-news]");
  const isWhole = "whole" in list.dataset;
  const address = new URL(location.href);
  if (!isWhole) address.searchParams.set("fragment", "1");
  const known = new Set(rowsIn(list).flatMap(eventsIn));
  let added = 0;
  let pause = SPACING;
  let timer = null;

  async function check() {
    const answer = await fetch(address, { redirect: "error" });
    if (!answer.ok) throw new Error(answer.status);
    const parsed = document.createElement("template");
    parsed.innerHTML = await answer.text(); // safe: from the same origin, escaped by the template
    // A click counts only if what was pressed is still there when it is released: check again later.
    if (document.querySelector(":active")) throw new Error("Something is being pressed.");
    const content = isWhole ? parsed.content.querySelector("[data-follow]") : parsed.content;
    const fresh = rowsIn(content).flatMap(eventsIn).filter((event) => !known.has(event));
    if (fresh.length) add(fresh, content);
    if (isWhole) replaceParts(parsed.content);
    checkWhatIsPending();
  }

  function checkWhatIsPending() {
    clearTimeout(timer);
    const isPending = document.querySelector("[data-pending]") !== null;
    pause = isPending ? Math.min(2 * pause, MAX_PENDING_PAUSE) : SPACING;
    if (isPending) timer = setTimeout(checkSoon, pause);
  }

  function add(fresh, content) {
    for (const event of fresh) known.add(event);
    const rows = rowsIn(content);
    for (const row of rows) row.classList.toggle("new", eventsIn(row).some((event) => fresh.includes(event)));
    if (rowsIn(list).length) replaceRows(list.querySelector(LIST), rows);
    else list.replaceChildren(...content.childNodes);
    added += fresh.length;
    if (news) news.textContent = `${added} new`;
    showLocalTimes(list);
  }

  const checkSoon = hearNews(list.dataset.follow, check, isWhole ? SPACING_OF_PAGES : SPACING);
}

// A row that gives way to a fold hands on the focus, and whether it was open. The oldest row makes room
// only if the reader's focus is not there.
function replaceRows(list, rows) {
  const focused = list.contains(document.activeElement) ? document.activeElement : null;
  const before = Array.from(list.children);
  const shown = rows.map((row) => before.find((old) => String(eventsIn(old)) === String(eventsIn(row))) ?? row);
  let next = null;
  for (const old of before.filter((row) => !shown.includes(row))) {
    const successor = shown.find((row) => eventsIn(row).some((event) => eventsIn(old).includes(event)));
    if (!successor && old.contains(focused)) {
      shown.push(old);
      continue;
    }
    if (old.contains(focused)) next = successor;
    if (old.querySelector("details[open]")) successor?.querySelector("details")?.setAttribute("open", "");
    old.remove();
  }
  let place = list.firstElementChild;
  for (const row of shown) {
    if (row === place) place = place.nextElementSibling;
    else list.insertBefore(row, place);
  }
  if (next) (next.querySelector("details:not([open]) > summary") ?? alike(focused, next)[0] ?? next.querySelector("a")).focus();
}

function replaceParts(page) {
  for (const part of document.querySelectorAll("[data-part]")) {
    const fresh = page.querySelector(`[data-part="${part.dataset.part}"]`);
    if (!fresh || isBeingFilledIn(part)) continue;
    holdBackConsent(part, fresh);
    if (replacePart(part, fresh)) addCopyButtons(part);
  }
}

// Nobody enrols by accident: a form that asks for consent never appears or changes under the pointer.
// A note in its place asks to reload the page. All else of the part is current.
function holdBackConsent(part, fresh) {
  const shown = part.querySelector("[data-consent]")?.dataset.consent;
  const isNews = !part.querySelector("[data-outdated]");
  for (const form of fresh.querySelectorAll("[data-consent]")) {
    if (form.dataset.consent !== shown) form.replaceWith(reloadToEnrol(isNews));
  }
}

// A screen reader announces it once.
function reloadToEnrol(isNews) {
  const note = document.createElement("p");
  note.dataset.outdated = "";
  if (isNews) note.setAttribute("role", "status");
  const link = document.createElement("a");
  link.href = location.href;
  link.textContent = "Reload this page";
  note.append(link, " to enrol.");
  return note;
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

function rowsIn(within) {
  return Array.from(within.querySelector(LIST)?.children ?? []);
}

// What names each event of a row.
function eventsIn(row) {
  const folded = Array.from(row.querySelectorAll("li[id]"), (event) => event.id);
  return folded.length ? folded : [row.id || row.querySelector("a").getAttribute("href")];
}

// The contract's page and the API reference: a filter, and code filled in with what one types. Nothing
// that is typed leaves the page. Without it, the page shows everything.
"use strict";

const page = document.querySelector(".reference");

// --- The filter ---------------------------------------------------------------------------------

const filter = document.getElementById("filter");
const found = document.getElementById("found");
const parts = Array.from(page.querySelectorAll(".parts > section"), (section) => ({
  section,
  link: page.querySelector(`.contents a[href="#${section.id || section.querySelector("[id]").id}"]`).parentElement,
  heading: plain(section.querySelector("h1, h2, h3").textContent),
  rows: Array.from(section.querySelectorAll("[data-row]")),
  folds: Array.from(section.querySelectorAll(":scope > details")),
}));

function plain(text) {
  return text.toLowerCase().replace(/\s+/g, " ").trim();
}

function matches(part, sought) {
  // A heading or the prose keeps all rows of its part. Otherwise only the rows that match stay.
  const matching = part.rows.filter((row) => plain(row.textContent).includes(sought));
  const all = part.heading.includes(sought) || !matching.length;
  for (const row of part.rows) row.hidden = !all && !matching.includes(row);
  return all ? plain(part.section.textContent).includes(sought) : true;
}

// A search opens all parts. When it ends, those are open that were before.
let isFiltered = false;

function applyFilter() {
  const sought = plain(filter.value);
  let count = 0;
  for (const part of parts) {
    const shown = matches(part, sought);
    part.section.hidden = part.link.hidden = !shown;
    for (const each of part.folds) {
      if (sought && !isFiltered) {
        each.dataset.wasOpen = each.open;
        each.open = true;
      } else if (!sought && isFiltered) each.open = each.dataset.wasOpen === "true";
    }
    count += shown;
  }
  isFiltered = Boolean(sought);
  found.textContent = sought ? `${count} of ${parts.length} parts` : "";
}

filter.addEventListener("input", applyFilter);
filter.form.addEventListener("submit", (event) => event.preventDefault());
filter.form.hidden = false;

// --- The code of the quickstarts ----------------------------------------------------------------

const typed = page.querySelectorAll(".fill input");
const codes = Array.from(page.querySelectorAll("[data-fill]"), (shown) => [shown, shown.textContent]);

function fillIn() {
  for (const [shown, original] of codes) {
    let text = original;
    for (const input of typed) {
      const value = input.value.trim();
      if (value) text = text.replaceAll(input.dataset.placeholder, () => value);
    }
    shown.textContent = text;
  }
}

for (const form of page.querySelectorAll(".fill")) {
  form.addEventListener("input", fillIn);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
}

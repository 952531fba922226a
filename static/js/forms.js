// What all forms share: after an error the focus is on the first field that has one, "/" leads to the
// search, a pair is typed in capitals, Enter asks a security key, and a password can be shown. The pages
// work without it.
"use strict";

const INVALID = "main :is([aria-invalid='true'], fieldset:has(> .errorlist) input, .errorlist.nonfield)";
const SHORTCUT_OFF = "shortcut-off"; // in this browser's storage

const invalid = document.querySelector(INVALID);
if (invalid) {
  if (invalid.matches(".errorlist")) invalid.tabIndex = -1;
  invalid.focus();
}

// Adds a quiet button behind an element.
function addButton(after, text, act) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button quiet small";
  button.textContent = text;
  button.addEventListener("click", () => act(button));
  after.after(button);
  return button;
}

// --- Pairs: what is sent is what the field shows ----------------------------------------------------

for (const field of document.querySelectorAll("input[autocapitalize=characters]")) {
  field.addEventListener("input", () => {
    const { selectionStart, selectionEnd } = field;
    field.value = field.value.toUpperCase();
    field.setSelectionRange(selectionStart, selectionEnd);
  });
  const { suggestion } = field.dataset;
  if (!suggestion) continue;
  addButton(field, `Use ${suggestion}`, (button) => {
    field.value = suggestion;
    field.focus();
    button.remove();
  });
}

// --- Enter: presses the button, whose script asks a security key and sends the form itself ----------

for (const button of document.querySelectorAll("button[data-on-enter]")) {
  button.form.addEventListener("submit", (event) => {
    event.preventDefault();
    button.click();
  });
}

// --- Passwords --------------------------------------------------------------------------------------

for (const field of document.querySelectorAll("input[type=password]")) {
  const button = addButton(field, "Show", () => {
    const hidden = field.type === "password";
    field.type = hidden ? "text" : "password";
    button.firstChild.textContent = hidden ? "Hide" : "Show";
  });
  button.classList.add("reveal");
  const which = document.createElement("span");
  which.className = "unseen";
  which.textContent = ` ${field.labels[0].textContent}`;
  button.append(which);
  field.form.addEventListener("submit", () => (field.type = "password")); // browsers keep texts
}

// --- The shortcut to the search, which can be turned off ----------------------------------------------

const search = document.querySelector("[data-search]");
if (search) {
  const hint = document.createElement("p");
  hint.className = "quiet";
  const turn = addButton(search, "", () => {
    localStorage.setItem(SHORTCUT_OFF, isOn() ? "1" : "");
    say();
  });
  turn.className = "link";
  const isOn = () => !localStorage.getItem(SHORTCUT_OFF);
  const say = () => {
    hint.replaceChildren(isOn() ? "Press / to search. " : "", turn);
    turn.textContent = isOn() ? "Turn this off" : "Let / lead to the search";
  };
  search.form.append(hint);
  say();
  document.addEventListener("keydown", (event) => {
    const types = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key !== "/" || types || event.ctrlKey || event.metaKey || event.altKey || !isOn()) return;
    event.preventDefault();
    search.focus();
  });
}

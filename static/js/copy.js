// Adds a copy button to every element with data-copy, which says what is copied, such as "the secret".
// If the browser refuses, the text is selected, so that the keyboard copies it. The pages work without it.
"use strict";

const SHOWN_FOR = 2000; // milliseconds
const copyStatus = document.createElement("p");
copyStatus.className = "unseen";
copyStatus.setAttribute("role", "status");

async function isCopied(text) {
  try {
    await navigator.clipboard.writeText(text); // browsers offer it over HTTPS and on localhost only
    return true;
  } catch {
    return false;
  }
}

async function copy(shown, button, what) {
  const copied = await isCopied(shown.textContent);
  if (!copied) {
    shown.focus();
    getSelection().selectAllChildren(shown);
  }
  copyStatus.textContent = copied
    ? `Copied ${what}.`
    : `Your browser did not let this page copy ${what}. It is selected: copy it with the keyboard.`;
  button.firstChild.data = copied ? "Copied" : "Selected: press Ctrl+C";
  setTimeout(() => {
    button.firstChild.data = "Copy";
    copyStatus.textContent = "";
  }, SHOWN_FOR);
}

function addCopyButtons(within) {
  for (const shown of within.querySelectorAll("[data-copy]")) {
    const what = shown.dataset.copy;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    const name = document.createElement("span");
    name.className = "unseen";
    name.textContent = ` ${what}`;
    button.append("Copy", name);
    button.addEventListener("click", () => copy(shown, button, what));
    shown.before(button);
  }
}

(document.querySelector("main") ?? document.body).append(copyStatus);
addCopyButtons(document);

// Hears of new events, with one stream for all windows of this browser, and shows parts of a page anew.
//
//     hearNews(address, check, spacing)
//
// The stream says only that something is new. Then check() fetches what the page shows, with at least
// ``spacing`` milliseconds between two calls. It returns a promise and rejects it on a failure. The
// window that holds the lock reads the stream and tells the others. A hidden window hears nothing,
// and checks when it is shown again. Returns a function that asks for a check.
"use strict";

const FIRST_PAUSE = 1000; // milliseconds before the stream is opened again
const MAX_PAUSE = 10000;

function hearNews(address, check, spacing) {
  const channel = new BroadcastChannel(address);
  const checkSoon = spaced(check, spacing);
  let leave = null;

  function tell() {
    channel.postMessage("news");
    checkSoon();
  }

  function join() {
    const waiting = new AbortController();
    let reads = false;
    let over = () => waiting.abort();
    const held = () =>
      new Promise((release) => {
        reads = true;
        const close = readStream(address, tell);
        over = () => {
          close();
          release();
        };
      });
    leave = () => over();
    // Without a secure context there are no locks. Then each window has its own stream.
    const asked = navigator.locks ? navigator.locks.request(address, { signal: waiting.signal }, held) : held();
    asked.catch(() => {}); // hidden before its turn came
    // What happened before this window listened, it heard from nobody.
    setTimeout(() => reads || checkSoon(), FIRST_PAUSE);
  }

  function follow() {
    if (!document.hidden && !leave) {
      join();
    } else if (document.hidden && leave) {
      leave();
      leave = null;
    }
  }

  channel.onmessage = () => {
    if (!document.hidden) checkSoon();
  };
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) checkSoon();
    follow();
  });
  follow();
  return checkSoon;
}

// Reads the stream and calls tell() for news. A stream that ends is opened again after a pause that
// grows. Each opening counts as news, because something may have happened in between. So with no
// stream at all, the pages poll. Returns a function that stops it.
function readStream(address, tell) {
  let source = null;
  let timer = null;
  let pause = FIRST_PAUSE;

  function open() {
    source = new EventSource(address);
    source.onopen = () => {
      pause = FIRST_PAUSE;
      tell();
    };
    source.addEventListener("news", tell);
    source.addEventListener("end", reopenLater);
    source.onerror = reopenLater;
  }

  function reopenLater() {
    source.close();
    clearTimeout(timer);
    timer = setTimeout(reopen, pause * (0.5 + Math.random() / 2));
    pause = Math.min(2 * pause, MAX_PAUSE);
  }

  // The browser does not notice that a connection is dead. So after it was offline, the stream is
  // opened again in any case.
  function reopen() {
    source.close();
    clearTimeout(timer);
    tell();
    open();
  }

  function stop() {
    window.removeEventListener("online", reopen);
    clearTimeout(timer);
    source.close();
  }

  window.addEventListener("online", reopen);
  open();
  return stop;
}

// Returns a function that calls check(), once at a time and with ``spacing`` in between. After a
// failure it calls again, after a pause that grows.
function spaced(check, spacing) {
  let pause = spacing;
  let running = false;
  let again = false;

  return async function soon() {
    again = true;
    if (running) return;
    running = true;
    while (again && !document.hidden) {
      again = false;
      try {
        await check();
        pause = spacing;
      } catch {
        again = true; // signed out, or the service does not answer
        pause = Math.min(2 * pause, MAX_PAUSE);
      }
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
    running = false;
  };
}

const sources = new WeakMap(); // of each part of a page, as the service sent it

// Shows a part as the service sent it now. What is open stays open, and the focus where it is. Returns
// whether there was something to do.
function replacePart(part, fresh) {
  if (fresh.innerHTML === sources.get(part)) return false;
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  const nameOf = (details, index) => details.id || index;
  const open = new Map(Array.from(part.querySelectorAll("details"), (each, index) => [nameOf(each, index), each.open]));
  const place = focused && alike(focused, part).indexOf(focused);
  sources.set(part, fresh.innerHTML);
  part.replaceChildren(...fresh.childNodes);
  part.querySelectorAll("details").forEach((each, index) => (each.open = open.get(nameOf(each, index)) ?? false));
  if (focused) alike(focused, part)[place]?.focus();
  showLocalTimes(part);
  return true;
}

// What a reader cannot tell from this element, in this part.
function alike(one, part) {
  const name = (each) => `${each.getAttribute("aria-label") ?? each.textContent} ${each.href}`;
  return Array.from(part.querySelectorAll(one.localName)).filter((each) => name(each) === name(one));
}

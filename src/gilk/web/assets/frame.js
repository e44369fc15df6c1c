// SPDX-License-Identifier: LGPL-2.1-or-later
// The parts that every page has: the top line, errors, notices, and commands to copy.

import { h, lines, show, trouble } from "./dom.js";
import { status } from "./status.js";
import { get, post } from "./talk.js";

export function again() {
  dispatchEvent(new Event("gilk-again"));
}

export function goTo(address) {
  dispatchEvent(new CustomEvent("gilk-go", { detail: address }));
}

const PAGES = [["/", "Overview"], ["/traces", "Traces"], ["/doctor", "Doctor"], ["/help", "Help"], ["/about", "About"]];

export function top() {
  const here = location.pathname;
  const line = h("p", { class: "status" });
  show(document.getElementById("top"),
    h("nav", { "aria-label": "Pages" },
      h("span", { class: "name" }, "gilk"),
      PAGES.map(([path, name]) =>
        h("a", { href: path, "aria-current": here === path ? "page" : null }, name))),
    line,
    h("button", { class: "keys", onclick: keys, title: "Keys (?)", "aria-label": "Keys" }, "?"),
    h("button", { class: "out", onclick: allOut, title: "Takes every instrument out of every process and kernel" }, "Everything out"));
  status(line);
}

const KEYS = [
  ["?", "this list"], ["Tab, Shift-Tab", "to the next and the last button, link, field or point"], ["Enter, Space", "press a button, or pick the point"],
  ["Esc", "close this list, or a list of words"],
  ["On a bar of an experiment: ← →", "move an end by 0.1 s; with Shift by 1 s; Home: as early as it can be; End: until the end"],
  ["On a time line: ← →", "move; + − zoom, 0 shows all, Page Up and Page Down scroll; Space chooses a call, then the arrows go to its neighbours, caller and longest call"],
  ["In a program: Ctrl-Space", "the words that may stand at the cursor; Tab leaves the field"],
];

// Show the keys of all pages.
export function keys() {
  if (document.querySelector("dialog[open]")) return;
  const before = document.activeElement;
  const list = h("dialog", { "aria-label": "Keys", onclose: () => { list.remove(); before?.focus?.(); } },
    h("h2", null, "Keys"), h("dl", null, KEYS.map(([key, what]) => [h("dt", null, key), h("dd", null, what)])),
    h("button", { onclick: () => list.close() }, "Close"));
  document.body.append(list);
  list.showModal();
}

async function allOut() {
  try {
    const { sessions } = await post("/end", {});
    const bad = sessions.filter((each) => (each.report ?? each.out)?.restored === false);
    notice(bad.length
      ? `Everything is out. The code of ${bad.map((each) => each.title).join(", ")} is NOT what it was.`
      : "Everything is out, and the code is what it was.");
    again();
  } catch (error) {
    notice(trouble(error));
  }
}

let noticed = 0;

// Show a notice in place of the last one: a text, or the parts of an error (`trouble`). '' removes that one.
export function notice(what) {
  dispatchEvent(new CustomEvent("gilk-notice", { detail: what }));
}

export function showNotice(what) {
  noticed = Date.now();
  show(document.getElementById("notice"), what.length ? h("p", null, what) : null);
}

// Remove the notice of an earlier page. A fresh notice, about how the reader came to this page, stays.
export function forgetNotice() {
  if (Date.now() - noticed > 2000) show(document.getElementById("notice"));
}

// An error that takes the place of a page, and a button that shows its paragraph of the documentation here.
export function refused(error) {
  const place = h("div");
  const more = h("button", { onclick: async () => {
    try {
      const found = await get(`/help.json?page=errors&at=${encodeURIComponent(error.slug)}`);
      show(place, h("p", null, found.text || "The documentation has no paragraph about it."));
    } catch (trouble) {
      show(place, h("p", null, trouble.message));
    }
  } }, `What is ${error.slug}?`);
  return h("section", { class: "refused", role: "alert" },
    h("h1", null, error.slug ? "That was refused" : "Something is wrong here"),
    h("p", null, trouble({ ...error, message: error.message, hint: "" })),
    error.hint ? h("p", null, error.hint) : null,
    error.slug ? more : null, place);
}

// The command line, and the Python code, that do the same as the page.
export function command(line, python) {
  return h("details", { class: "command" },
    h("summary", null, "As a command"),
    h("pre", { tabindex: 0, "aria-label": "Command line" }, lines(line)),
    python ? h("pre", { tabindex: 0, "aria-label": "Python" }, lines(python)) : null,
    h("button", { onclick: () => navigator.clipboard?.writeText(line) }, "Copy the command"));
}

const EVERY = 2000; // ms between two looks
const REST = 4; // a look may take one part in this many plus one of the time

// Call `look`, which returns a promise, every two seconds from then on, and less often if it takes long. Returns a function
// that ends this.
export function looking(look) {
  let over = false;
  async function turn() {
    if (document.hidden) await new Promise((seen) => addEventListener("visibilitychange", seen, { once: true }));
    const began = performance.now();
    try {
      if (!over) await look();
    } catch {
      // The server may be gone for a while; what is shown stays.
    }
    if (!over) setTimeout(turn, Math.max(EVERY, REST * (performance.now() - began)));
  }
  setTimeout(turn, EVERY);
  return () => {
    over = true;
  };
}

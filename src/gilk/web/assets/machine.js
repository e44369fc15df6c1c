// SPDX-License-Identifier: LGPL-2.1-or-later
// The machine whose kernel is instrumented: the lab, a virtual one, or this one, or one that is reached over ssh. Its page
// follows its state.

import { capital, h, lines, plural, show, trouble } from "./dom.js";
import { again, notice } from "./frame.js";
import { get, post } from "./talk.js";
import { images } from "./target.js";
import { add } from "./pane.js";
import { sessionRows } from "./rows.js";
import { typedField } from "./typed.js";

const EVERY = 1000; // ms between two looks at the state

export function machine(place, found) {
  const [{ id }, now] = [found, found.machine];
  const words = wordsOf(now);
  const console_ = h("pre", { tabindex: 0, class: "printed", role: "region", "aria-label": "Console of the lab" });
  const said = (now) => show(console_, h("span", null, lines((now.console ?? "").trimEnd())));
  said(now);
  show(place,
    h("h1", null, words.title),
    h("p", null, words.about),
    h("div", { role: "status" }, state(now, words)),
    now.state === "starting" ? null : h("p", { class: "acts" }, now.state === "up"
      ? [h("a", { href: `/target/${id}/symbols?image=kernel` }, "Find a function"), h("a", { href: `/target/${id}/d` }, "Write a D program"), h("a", { href: `/target/${id}/trace` }, "Trace its calls"), act(words.end, "/machine/end", words.over)]
      : act(words.start, "/machine/start", "")),
    now.state === "up" ? typedField(id, (text) => add(id, text)) : null,
    found.sessions.length ? h("section", null, h("h2", null, "Sessions"), sessionRows(found.sessions)) : null,
    found.images.length ? h("section", null, h("h2", null, "Kernel and modules"), images(id, found)) : null,
    now.console ? h("details", null, h("summary", null, "Console"), console_) : null);
  return followed(id, now.state, said);
}

function act(name, path, done) {
  const button = h("button", { onclick: async () => {
    button.disabled = true;
    try {
      await post(path, {});
      if (done) notice(done);
      again();
    } catch (error) {
      notice(trouble(error));
      button.disabled = false;
    }
  } }, name);
  return button;
}

const LAB = {
  title: "The lab", start: "Start the lab", end: "End the lab", over: "The lab has ended.", up: "It is up", starting: "It is starting", off: "It has ended",
  about: "A virtual machine with a stock kernel and the files of this machine, which it cannot change. Nothing that happens in it can break this machine.",
};
const OTHER = { start: "Connect", end: "Disconnect", over: "The connection has ended.", up: "Connected", starting: "Connecting", off: "Not connected" };

// The words for a machine: the lab is started and ended, and others, which run anyway, are connected to.
function wordsOf({ name, title }) {
  if (name === "lab") return LAB;
  const where = name === "here" ? "The kernel that this window runs on" : "A kernel that is reached over ssh";
  return { ...OTHER, title: capital(title),
    about: `${where}. gilk's driver, which has to be loaded there (gilk driver load), takes out what a session has put in when the session ends, or the connection.` };
}

function state(now, words) {
  if (now.state === "up") return h("p", null, `${words.up}: kernel ${now.release}, ${plural(now.functions, "function")}.`);
  if (now.state === "starting") return h("p", null, `${words.starting}. That takes some seconds …`);
  if (!now.why) return h("p", null, `${words.off}.`);
  return h("section", { class: "refused", role: "alert" }, h("h2", null, words.off),
    h("p", null, trouble({ ...now.why, hint: "" })), now.why.hint ? h("pre", { tabindex: 0 }, lines(now.why.hint)) : null);
}

// Look again and again, and show the page anew when the state is another one. Returns the end of that.
function followed(id, before, said) {
  let over = false;
  async function look() {
    if (over) return;
    try {
      const { machine: now } = await get(`/target/${id}.json`);
      if (over) return;
      if (now.state !== before) return again();
      said(now);
    } catch {
      // The server may be gone for a while; the next look finds out.
    }
    setTimeout(look, EVERY);
  }
  setTimeout(look, EVERY);
  return () => {
    over = true;
  };
}

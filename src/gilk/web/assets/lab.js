// SPDX-License-Identifier: LGPL-2.1-or-later
// The lab: a virtual machine, whose kernel can be instrumented. Its page follows its state.

import { h, lines, plural, show } from "./dom.js";
import { again, notice } from "./frame.js";
import { get, post } from "./talk.js";
import { images } from "./target.js";
import { add } from "./pane.js";
import { sessionRows } from "./session.js";
import { typedField } from "./typed.js";

const EVERY = 1000; // ms between two looks at the state

export function lab(place, found) {
  const console_ = h("pre", { tabindex: 0, class: "printed", role: "region", "aria-label": "Console of the lab" });
  const said = (now) => show(console_, h("span", null, lines((now.console ?? "").trimEnd())));
  said(found.lab);
  show(place,
    h("h1", null, "The lab"),
    h("p", null, "A virtual machine with a stock kernel and the files of this machine, which it cannot change. Nothing that happens in it can break this machine."),
    h("div", { role: "status" }, state(found.lab)),
    found.lab.state === "starting" ? null : h("p", { class: "acts" }, found.lab.state === "up"
      ? [h("a", { href: "/target/lab/symbols?image=kernel" }, "Find a function"), h("a", { href: "/target/lab/d" }, "Write a D program"), h("a", { href: "/target/lab/trace" }, "Trace its calls"), act("End the lab", "/lab/end", "The lab has ended.")]
      : act("Start the lab", "/lab/start", "")),
    found.lab.state === "up" ? typedField("lab", (text) => add("lab", text)) : null,
    found.sessions.length ? h("section", null, h("h2", null, "Sessions"), sessionRows(found.sessions)) : null,
    found.images.length ? h("section", null, h("h2", null, "Kernel and modules"), images("lab", found)) : null,
    found.lab.console ? h("details", null, h("summary", null, "Console"), console_) : null);
  return followed(found.lab.state, said);
}

function act(name, path, done) {
  const button = h("button", { onclick: async () => {
    button.disabled = true;
    try {
      await post(path, {});
      if (done) notice(done);
      again();
    } catch (error) {
      notice(`${error.message} (${error.slug}) ${error.hint}`);
      button.disabled = false;
    }
  } }, name);
  return button;
}

function state(now) {
  if (now.state === "up") return h("p", null, `It is up: kernel ${now.release}, ${plural(now.functions, "function")}.`);
  if (now.state === "starting") return h("p", null, "It is starting. That takes some seconds …");
  if (!now.why) return h("p", null, "It has ended.");
  return h("section", { class: "refused", role: "alert" }, h("h2", null, "It has ended"),
    h("p", null, `${now.why.message} (${now.why.slug})`), now.why.hint ? h("pre", { tabindex: 0 }, lines(now.why.hint)) : null);
}

// Look again and again, and show the page anew when the state is another one. Returns the end of that.
function followed(before, said) {
  let over = false;
  async function look() {
    if (over) return;
    try {
      const { lab: now } = await get("/target/lab.json");
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

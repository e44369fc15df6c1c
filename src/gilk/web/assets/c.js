// SPDX-License-Identifier: LGPL-2.1-or-later
// A field in the list of chosen instruments in which instruments are written in C. The compiler's words stand below it.

import { h, later, show, trouble } from "./dom.js";
import { Editor } from "./editor.js";
import { post } from "./talk.js";

const FILE = "mine.c";
const REST = 250; // ms without a key before the text is compiled
const FIRST = `#include <gilk.h>

void mine(const struct gilk_regs *regs, unsigned int iid)
{
	ilk_log_integer_sample(regs->rdi, iid);
}
`;

export function isC(request) {
  return request.slice(request.lastIndexOf("=") + 1).startsWith(`${FILE}:`);
}

export function text() {
  return sessionStorage.getItem("c text") ?? FIRST;
}

// The instruments that the text has, as requests name them, once it has been compiled.
export function instruments() {
  try {
    return JSON.parse(sessionStorage.getItem("c functions")) ?? [];
  } catch {
    return [];
  }
}

// The field. `changed` is called when the text has other instruments, `typed` when it has changed. In the lab, the kernel's own
// build compiles the text, which takes so long that it is not done as one types.
export function field(lab, changed, typed) {
  const said = h("div", { role: "status", "aria-label": "Problems" });
  const nothing = () => Promise.resolve({ start: 0, end: 0, words: [], kind: "", left_out: 0 });
  const rested = later(check, REST);
  const editor = new Editor(text(), nothing, () => {
    sessionStorage.setItem("c text", editor.text);
    typed();
    rested();
  });

  async function check() {
    const asked = editor.text;
    try {
      const found = await post(lab ? "/c/names.json" : "/c/check.json", { text: asked });
      if (asked !== editor.text) return;
      editor.told(found.problems.map((one) => [one.start, one.end, one.message]), []);
      show(said, verdict(found, editor, lab));
      const names = found.functions.map((name) => `${FILE}:${name}`);
      if (JSON.stringify(names) !== JSON.stringify(instruments())) {
        sessionStorage.setItem("c functions", JSON.stringify(names));
        changed();
      }
    } catch (error) {
      if (error.name !== "AbortError") show(said, h("p", { class: "state missing" }, trouble(error)));
    }
  }

  const isOpen = sessionStorage.getItem("c open") === "yes";
  const place = h("details", { open: isOpen, ontoggle: () => {
    const opened = place.open;
    if (opened === (sessionStorage.getItem("c open") === "yes") && said.childNodes.length) return;
    sessionStorage.setItem("c open", opened ? "yes" : "no");
    if (opened) {
      editor.draw();
      check();
    }
  } }, h("summary", null, "Instruments in C"),
  h("p", { class: "field" }, h("label", { for: "program" }, FILE),
    h("span", { id: "keys", class: "hint" }, "Its functions can be chosen for the points above. Tab leaves the field. ",
      h("a", { href: "/help/instruments" }, "What they may do"))),
  said, editor.place);
  return place;
}

function verdict(found, editor, lab) {
  const names = found.functions.join(", ");
  if (!found.problems.length) return h("p", { class: lab ? "hint" : "state ok" }, lab ? `It has ${names}. The kernel's own build compiles it when the session begins.` : `It compiles, and has ${names}.`);
  return h("ul", { class: "problems" }, found.problems.map((one) => h("li", null,
    h("button", { onclick: () => editor.goTo(one.start, one.end) }, `line ${one.line}, column ${one.column}`), ` ${one.message}`)));
}

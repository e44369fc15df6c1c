// SPDX-License-Identifier: LGPL-2.1-or-later
// A program in D for a process. It is compiled when it is to run; what is wrong with it is said, and nothing is changed.

import { h, show } from "./dom.js";
import { goTo } from "./frame.js";
import { get, post } from "./talk.js";

const EXAMPLE = `pid$target::main:entry
{
    @calls[probefunc] = count();
}
`;

export async function program(place, id) {
  const about = await get(`/target/${id}.json`);
  const wrong = h("div", { role: "alert" });
  const text = h("textarea", { id: "program", rows: 14, spellcheck: "false", autocomplete: "off" });
  text.value = new URLSearchParams(location.search).get("text") ?? EXAMPLE;
  text.addEventListener("input", () => history.replaceState(null, "", `${location.pathname}?${new URLSearchParams({ text: text.value })}`));
  const run = h("button", { class: "main", onclick: async () => {
    run.disabled = true;
    show(wrong, h("p", null, "Compiling, and putting it in …"));
    try {
      const session = await post("/session/d", { target: id, text: text.value });
      goTo(`/session/${session.number}`);
    } catch (error) {
      show(wrong, h("p", null, `Nothing was put in. ${error.message} (${error.slug})`), error.hint ? h("p", null, error.hint) : null);
      run.disabled = false;
    }
  } }, "Run");
  show(place,
    h("h1", null, `D program for ${about.title}`),
    h("p", null, "$target is this process. ", h("a", { href: "/help/d/README" }, "The language"), ", ",
      h("a", { href: "/help/d/providers" }, "its probes"), ", ", h("a", { href: "/help/d/actions" }, "what it can do"), "."),
    h("p", null, h("label", { for: "program" }, "Program")), text,
    h("p", null, run), wrong);
}

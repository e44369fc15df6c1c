// SPDX-License-Identifier: LGPL-2.1-or-later
// A field for points and an instrument that are typed, as `gilk run -i` takes them.

import { h, isMachine } from "./dom.js";
import { notice } from "./frame.js";

let fields = 0; // on this page until now: the target's page and the list below have one each

// The field. `add` is given what was typed.
export function typedField(target, add) {
  const example = isMachine(target) ? "kernel:vfs_read:entry=count" : "libc:write:entry=time";
  const field = h("input", { id: `typed${++fields}`, autocomplete: "off", spellcheck: "false", placeholder: example });
  return h("form", { class: "field wide typed", onsubmit: (event) => {
    event.preventDefault();
    const text = field.value.trim();
    if (!/^[^=]+=[^=]+$/.test(text)) return notice(`That is POINTS=INSTRUMENT, as ${example}, or FUNCTIONS=@STRATEGY.`);
    field.value = "";
    return add(text);
  } }, h("label", { for: field.id }, "Points and instrument"), field, h("button", null, "Add"), h("a", { href: "/help/cli/run" }, "What can be typed"));
}

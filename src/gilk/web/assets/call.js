// SPDX-License-Identifier: LGPL-2.1-or-later
// A call of a trace in words: its times, its caller, its longest callees, and all calls of its function. When the user picks
// another call there, `choose` is called with its number.

import { duration, h, moment, number, plural, table } from "./dom.js";

export function aboutCall(found, choose) {
  const link = (one) => h("button", { onclick: () => choose(one.call) }, one.function);
  const times = [["took", duration(found.duration)], ["in itself", duration(found.self)], ["began at", moment(found.start, 1)],
    ["image", found.image], ["state", found.state], ["made", plural(found.made, "call")]];
  const all = [["calls", number(found.function_calls)], ["in all", duration(found.function_total)], ["in itself", duration(found.function_self)],
    ["shortest", duration(found.function_least)], ["median", duration(found.function_median)], ["longest", duration(found.function_most)]];
  const facts = (rows) => h("dl", { class: "facts small" }, rows.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
  return [h("h2", null, found.function), facts(times),
    found.callers.length ? h("p", { class: "acts" }, "Called by ", found.callers.slice(0, 12).map(link),
      found.callers.length > 12 ? ` and ${found.callers.length - 12} more` : null) : h("p", null, "Nothing in the trace has called it."),
    found.children.length ? table("Its longest calls", [
      ["Its longest calls", "name", link], ["Took", "number", (one) => duration(one.duration)], ["In itself", "number", (one) => duration(one.self)],
    ], found.children.slice(0, 15)) : null,
    h("h3", null, `All calls of ${found.function}`), facts(all)];
}

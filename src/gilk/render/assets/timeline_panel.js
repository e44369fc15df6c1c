/* SPDX-License-Identifier: LGPL-2.1-or-later
 * The panel on the right: the trace as a whole, or the call that was chosen. Names come from the traced program: they
 * are only ever set as text. */
"use strict";

const STATES = [
  "",
  "left: no return was recorded, and what came later shows that it is gone (longjmp, an exception, the end of its thread)",
  "open: it did not return before the trace stopped",
  "entered before the trace began: the beginning is not known",
  "records were dropped within it: its entry and its return may be of two calls",
  "closed by its caller: its function returns where it cannot be instrumented, and what came later shows that it is gone",
];

function element(name, text = "", ...inner) {
  const made = document.createElement(name);
  if (text !== "") made.textContent = text;
  made.append(...inner);
  return made;
}

function classed(name, made) {
  made.className = name;
  return made;
}

/** A table of `rows`, each [cells, what to do on a click or null]. */
function table(rows) {
  return element("table", "", ...rows.map(([cells, act]) => {
    const row = element("tr", "", ...cells.map((cell) => element("td", cell)));
    if (act) {
      row.className = "go";
      row.addEventListener("click", act);
    }
    return row;
  }));
}

function showTrace(panel, trace, act) {
  const parts = [element("h2", trace.heading)];
  for (const line of trace.about) parts.push(element("p", line));
  for (const line of trace.losses) parts.push(classed("loss", element("p", line)));
  if (trace.omitted.length) {
    parts.push(element("h3", "no longer followed: short and hot"));
    parts.push(table(trace.omitted.map((each) => [
      [`${each.function}`, each.calls ? `after ${each.calls.toLocaleString("en")} calls` : "too many calls before that", `from ${duration(each.from)}`],
      () => act.search(each.function),
    ])));
  }
  parts.push(element("h3", "time in the functions themselves"));
  parts.push(table(trace.functions.map((each) => [
    [each.function, `${each.calls.toLocaleString("en")} ×`, duration(each.self)],
    () => act.search(each.function),
  ])));
  parts.push(classed("dim", element("p", "Click a call for its details, a function here to find its calls. ? lists the keys.")));
  panel.replaceChildren(...parts);
}

function showCall(panel, trace, call, act) {
  const { start, end, own, parent, symbol, state } = trace, [name, image, lane] = trace.symbols[symbol[call]];
  const took = end[call] - start[call], parts = [element("h2", name)];
  parts.push(classed("dim", element("p", lane ? "kernel" : image)));
  if (state[call]) parts.push(classed("loss", element("p", STATES[state[call]])));
  parts.push(navigation(trace, call, act));
  const share = (part, of) => (of > 0 ? `${((100 * part) / of).toPrecision(3)} %` : "");
  const rows = [["took", duration(took), ""], ["in itself", duration(own[call]), share(own[call], took)]];
  rows.push(["began at", moment(start[call]), ""], ["ended at", moment(end[call]), ""]);
  if (parent[call] >= 0) rows.push(["of its caller", "", share(took, end[parent[call]] - start[parent[call]])]);
  parts.push(table(rows.map((row) => [row, null])));
  parts.push(...callees(trace, call, act), ...callers(trace, call, act));
  panel.replaceChildren(...parts);
}

/** How this call stands among the others of the function, and buttons to get to those. */
function navigation(trace, call, act) {
  const { start, end, symbol } = trace, same = [];
  for (let n = 0; n < trace.count; n++) if (symbol[n] === symbol[call]) same.push(n);
  const times = same.map((n) => end[n] - start[n]).sort((a, b) => a - b), at = same.indexOf(call);
  const nav = element("nav"), step = (text, to) => {
    const button = element("button", text);
    button.disabled = to === undefined;
    button.addEventListener("click", () => act.choose(to, true));
    nav.append(button);
  };
  step("‹ previous", same[at - 1]);
  step("next ›", same[at + 1]);
  step("longest", same.reduce((best, n) => (end[n] - start[n] > end[best] - start[best] ? n : best), call));
  const zoom = element("button", "zoom (z)");
  zoom.addEventListener("click", () => act.zoomTo(call));
  nav.append(zoom);
  const middle = times[(times.length - 1) >> 1];
  const text = `call ${(at + 1).toLocaleString("en")} of ${same.length.toLocaleString("en")}; ` +
    `least ${duration(times[0])}, median ${duration(middle)}, most ${duration(times[times.length - 1])}`;
  return element("div", "", nav, element("p", text));
}

function callees(trace, call, act) {
  const { start, end, parent, symbol, depth } = trace, found = new Map();
  for (let n = call + 1; n < trace.count && depth[n] > depth[call]; n++) {
    if (parent[n] !== call) continue;
    const entry = found.get(symbol[n]) ?? { calls: 0, total: 0, longest: n };
    entry.calls++;
    entry.total += end[n] - start[n];
    if (end[n] - start[n] > end[entry.longest] - start[entry.longest]) entry.longest = n;
    found.set(symbol[n], entry);
  }
  if (!found.size) return [];
  const rows = [...found].sort((a, b) => b[1].total - a[1].total).slice(0, 30);
  return [element("h3", "calls"), table(rows.map(([which, entry]) => [
    [trace.symbols[which][0], `${entry.calls.toLocaleString("en")} ×`, duration(entry.total)],
    () => act.choose(entry.longest, true),
  ]))];
}

function callers(trace, call, act) {
  const rows = [];
  for (let above = trace.parent[call]; above >= 0; above = trace.parent[above]) {
    const to = above;
    rows.push([[trace.symbols[trace.symbol[to]][0], duration(trace.end[to] - trace.start[to])], () => act.choose(to, true)]);
  }
  return rows.length ? [element("h3", "called from"), table(rows)] : [];
}

// SPDX-License-Identifier: LGPL-2.1-or-later
// The page of all files of samples, and the page of the differences between two of them.

import { duration, h, lines, number, plural, show, table } from "./dom.js";
import { command, goTo } from "./frame.js";
import { Pair } from "./pair.js";
import { get } from "./talk.js";

export async function traces(place) {
  const found = await get("/traces.json");
  const pick = (side) => h("select", { id: side }, found.files.map((one) => h("option", { value: one.id }, one.name)));
  const [a, b] = [pick("a"), pick("b")];
  if (found.files.length > 1) [b.value, a.value] = [found.files[0].id, found.files[1].id];
  show(place, h("h1", null, "Traces and samples"),
    found.files.length ? table(plural(found.files.length, "file"), [
      ["File", "", (one) => h("a", { href: `/file/${one.id}/timeline` }, one.name)],
      ["Directory", "lesser", (one) => one.folder],
      ["Size", "number", (one) => `${number(Math.ceil(one.bytes / 1024))} kB`],
      ["Changed", "", (one) => new Date(one.changed * 1000).toISOString().slice(0, 16).replace("T", " ")],
    ], found.files) : h("p", null, found.folders.length ? "There is no file of samples in the window's directories."
      : "The window was given no directory: gilk web --files DIR."),
    found.left_out ? h("p", null, `and ${plural(found.left_out, "file")} that the list has no room for`) : null,
    found.files.length ? h("p", null, "Times are UTC. `gilk trace -o FILE` and `gilk run -o FILE` make such files.") : null,
    found.files.length > 1 ? h("form", { class: "fields", onsubmit: (event) => {
      event.preventDefault();
      goTo(`/diff?${new URLSearchParams({ a: a.value, b: b.value })}`);
    } },
    h("p", { class: "field" }, h("label", { for: "a" }, "Compare A"), a),
    h("p", { class: "field" }, h("label", { for: "b" }, "with B"), b),
    h("p", { class: "field" }, h("button", null, "Compare"))) : null);
}

// A table of many columns, which scrolls on a narrow page.
function wide(caption, columns, rows) {
  const slim = columns.filter(([, kind]) => !kind.includes("lesser")).length < 5;
  return h("div", { class: slim ? "wide slim" : "wide", tabindex: 0, role: "region", "aria-label": `Table: ${caption}` }, table(caption, columns, rows));
}

function path(functions) {
  return functions.join(" › ");
}

// The columns, in which each call has a button that shows the last function of its path in both time lines below, and links to each alone.
function leading(columns, found, pair) {
  const nameOf = (one) => (one.path.at(-1) ?? "").replace(/_\[k\]$/, "").slice(0, 200);
  const links = (one, name) => h("span", { class: "show" },
    h("button", { "aria-label": `${name} in both`, onclick: () => pair.show(name) }, "in both"),
    [["A", found.a], ["B", found.b]].map(([side, file]) =>
      [" ", h("a", { href: `/file/${file.id}/timeline?${new URLSearchParams({ q: name })}`, "aria-label": `${name} in ${side}` }, `in ${side}`)]));
  return columns.map(([heading, kind, cell]) =>
    [heading, kind, ["Call", "Made by"].includes(heading) ? (one) => [cell(one), " ", links(one, nameOf(one))] : cell]);
}

// The sorts of findings: the key in the JSON answer, the heading, the columns.
const FINDINGS = [
  ["unfinished", "Never returned", [["In", (one) => one.in], ["Call", (one) => path(one.path)], ["Ran for", (one) => duration(one.duration_ns)],
    ["In the other", (one) => one.other ?? "no such call"]]],
  ["only_a", "Calls only in A", [["Call", (one) => path(one.path)], ["Calls", (one) => number(one.calls)]]],
  ["only_b", "Calls only in B", [["Call", (one) => path(one.path)], ["Calls", (one) => number(one.calls)]]],
  ["order", "In another order", [["Made by", (one) => path(one.path) || "the thread itself"], ["Calls", (one) => number(one.calls)],
    ["A", (one) => path(one.a)], ["B", (one) => path(one.b)]]],
  ["endings", "End otherwise", [["Call", (one) => path(one.path)], ["A", (one) => one.a], ["B", (one) => one.b], ["Calls", (one) => number(one.calls)]]],
];

const TIMES = [["Call", "name", (one) => path(one.path)], ["Calls in A", "number lesser", (one) => number(one.calls_a)],
  ["in B", "number lesser", (one) => number(one.calls_b)], ["Time in A", "number", (one) => duration(one.total_a)],
  ["in B", "number", (one) => duration(one.total_b)],
  ["Changed by", "number", (one) => `${one.change_ns > 0 ? "+" : "−"}${duration(Math.abs(one.change_ns))}`]];

export async function diff(place) {
  const asked = new URLSearchParams(location.search);
  show(place, h("h1", null, "Comparing …"));
  const found = await get(`/diff.json?${asked}`);
  const timeLines = h("section", { "aria-label": "Both time lines" });
  const pair = new Pair(timeLines, asked);
  const slower = h("input", { id: "slower", type: "number", min: 0, step: "any", value: asked.get("slower") ?? "" });
  const sections = FINDINGS.filter(([key]) => found[key].length);
  const changed = found.times.filter((one) => one.change_ns);
  const threads = [["A", found.threads_only_a], ["B", found.threads_only_b]].filter(([, names]) => names.length);
  show(place, h("h1", null, `${found.a.name} and ${found.b.name}`),
    h("p", null, h("a", { href: `/file/${found.a.id}/timeline` }, "Time line of A"), ", ", h("a", { href: `/file/${found.b.id}/timeline` }, "of B"), ". ",
      h("a", { href: `/diff?${new URLSearchParams({ a: found.b.id, b: found.a.id })}` }, "The other way round")),
    h("p", { role: "status", class: found.same ? "mark all" : "mark none" }, found.same ? "The same calls in the same order." : "They differ."),
    h("form", { class: "fields", onsubmit: (event) => {
      event.preventDefault();
      asked.set("slower", slower.value || "0");
      goTo(`/diff?${asked}`);
    } }, h("p", { class: "field" }, h("label", { for: "slower" }, "Calls also differ that take so many times as long"), slower, h("button", null, "Compare"))),
    threads.map(([side, names]) => h("p", null, `Threads only in ${side}: ${names.join(", ")}`)),
    sections.map(([key, heading, columns]) => h("section", null, h("h2", null, heading),
      wide(heading, leading(columns.map(([name, cell]) => [name, "", cell]), found, pair), found[key]))),
    found.slower.length ? h("section", null, h("h2", null, "Slower in B"), wide("Slower in B", leading(TIMES, found, pair), found.slower)) : null,
    changed.length ? h("section", null, h("h2", null, "Most changed in time"), wide("Most changed in time", leading(TIMES, found, pair), changed)) : null,
    found.not_compared.length ? h("p", null, `Not compared, for they were not followed all the time: ${found.not_compared.join(", ")}`) : null,
    timeLines,
    h("section", null, h("h2", null, "As gilk diff prints it"), h("pre", { tabindex: 0, role: "region", "aria-label": "Text" }, lines(found.text))),
    command(found.command));
  pair.open([found.a, found.b]);
  return () => pair.leave();
}

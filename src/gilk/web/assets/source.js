// SPDX-License-Identifier: LGPL-2.1-or-later
// The source of a function beside its blocks: each line with the blocks that have its code, and with their hits.

import { h, number, plural, short, show, trouble } from "./dom.js";
import { get } from "./talk.js";

const HEATS = 6;

// When the user picks a block at a line, `to` is called with it. The returned functions mark a block's lines, and colour lines
// by their hits.
export function sourceOf(id, words, found, to) {
  const place = h("section", { class: "source", "aria-label": "Source" });
  const known = found.blocks.some((block) => block.instructions.some((one) => one.source));
  let [rows, counts, marked] = [[], null, null];
  if (known) load(words.get("source") ?? "");
  else show(place, h("p", { class: "hint" }, "No lines of the source are known: the image has no line table."));

  async function load(file) {
    const asked = new URLSearchParams(words);
    asked.delete("source");
    if (file) asked.set("file", file);
    try {
      drawn(await get(`/target/${id}/source.json?${asked}`));
    } catch (error) {
      if (error.name === "AbortError") return;
      show(place, h("h2", null, "Source"), h("p", null, trouble(error, "No source:")));
    }
  }

  function drawn(told) {
    const files = h("select", { id: "file", onchange: () => {
      const address = new URLSearchParams(location.search);
      address.set("source", files.value);
      history.replaceState(null, "", `${location.pathname}?${address}`);
      load(files.value);
    } }, told.files.map((name) => h("option", { value: name }, name)));
    files.value = told.file;
    rows = told.lines.map((line) => {
      const hits = h("td", { class: "number" });
      const row = h("tr", null,
        h("td", { class: "number" }, line.line), hits,
        h("td", { class: "blocks" }, line.blocks.map((block) => h("button", { "aria-label": `Block @${block} of line ${line.line}`,
          onclick: () => to(block) }, `@${block}`))),
        h("td", { class: "code" }, h("code", null, line.text.replaceAll("\t", "    "))));
      return { ...line, row, hits };
    });
    show(place, h("h2", null, "Source"),
      told.files.length > 1 ? h("p", { class: "field" }, h("label", { for: "file" }, "File"), files) : h("p", null, told.file),
      h("div", { class: "graph", tabindex: 0, role: "region", "aria-label": "Lines of the source" },
        h("table", null, h("caption", { class: "unseen" }, `Lines of ${told.file}`),
          h("thead", null, h("tr", null, ["Line", "Hits", "Blocks", "Text"].map((name) => h("th", { scope: "col" }, name)))),
          h("tbody", null, rows.map((each) => each.row)))),
      told.left_out ? h("p", null, `and ${plural(told.left_out, "line")} farther down`) : null);
    if (counts) heat(counts);
    if (marked !== null) mark(marked);
  }

  // Colour the lines. A line has the hits of that one of its blocks that has most.
  function heat(found_) {
    counts = found_;
    const of = (each) => each.blocks.map((block) => counts[block]).filter((count) => count !== undefined);
    const most = Math.max(1, ...rows.flatMap(of));
    for (const each of rows) {
      const mine = of(each);
      const hits = mine.length ? Math.max(...mine) : undefined;
      const level = hits ? Math.max(1, HEATS - Math.floor(Math.log2(most / hits))) : 0;
      each.hits.textContent = hits === undefined ? "" : short(hits);
      each.hits.title = hits === undefined ? "" : number(hits);
      each.hits.className = `number${hits === undefined ? "" : ` warm${level}`}`;
    }
  }

  function mark(block) {
    marked = block;
    for (const each of rows) each.row.classList.toggle("marked", each.blocks.includes(block));
    const first = rows.find((each) => each.blocks.includes(block));
    const within = first?.row.closest(".graph");
    if (within) within.scrollTop = Math.max(0, first.row.offsetTop - within.clientHeight / 3);
  }

  return { place, heat, mark };
}

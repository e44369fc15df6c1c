// SPDX-License-Identifier: LGPL-2.1-or-later
// Values of an aggregation over time: a line for each of its largest rows, and a table that says the same.

import { h, number, s, short, table, times } from "./dom.js";

const STEP = 14; // pixels from one look to the next, as in a heat map
const [LEFT, HEIGHT, FOOT] = [90, 120, 18]; // pixels
const LEGEND = 16; // pixels for the name of a line

// Lines of the rows [name, [{seconds, value}, ...]], whose looks end at the same time. `of` names the aggregation.
export function overTime(of, rows) {
  const longest = rows.reduce((most, [, times]) => (times.length > most.length ? times : most), []);
  if (longest.length < 2) return null;
  const values = rows.flatMap(([, times]) => times.map((time) => time.value));
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const [first, last] = [longest[0].seconds, longest[longest.length - 1].seconds];
  const place = (seconds, value) => [LEFT + ((longest.length - 1) * STEP * (seconds - first)) / (last - first || 1),
    6 + (HEIGHT - 12) * (high === low ? 0.5 : (high - value) / (high - low))];
  const label = `Lines of ${of}, ${short(low)} to ${short(high)}, ${first} s to ${last} s`;
  return h("div", null, picture(of, label, rows, longest.length, { low, high, first, last, place }), asTable(of, rows, longest));
}

function picture(of, label, rows, looks, { low, high, first, last, place }) {
  const width = Math.max(LEFT + looks * STEP, 260);
  const height = HEIGHT + FOOT + rows.length * LEGEND;
  return h("div", { class: "heatmap", "data-of": `lines of ${of}`, tabindex: 0, role: "region", "aria-label": label },
    s("svg", { width, height, role: "img", "aria-label": label, class: "over-time" },
      high === low ? null : mark(high, 10),
      mark(low, high === low ? HEIGHT / 2 + 4 : HEIGHT - 2),
      rows.map(([name, looked], row) => s("g", { class: `line${row}` },
        s("polyline", { points: looked.map((time) => place(time.seconds, time.value).map((at) => at.toFixed(1)).join(",")).join(" ") },
          s("title", null, name)),
        s("path", { d: `M${LEFT} ${HEIGHT + FOOT + row * LEGEND + 9}h24` }),
        s("text", { x: LEFT + 30, y: HEIGHT + FOOT + row * LEGEND + 13 }, name))),
      times(first, last, LEFT, LEFT + (looks - 1) * STEP, HEIGHT + 11)));
}

function mark(value, y) {
  return s("text", { x: LEFT - 6, y, "text-anchor": "end" }, short(value), s("title", null, number(value)));
}

function asTable(of, rows, looks) {
  return overTimeAsTable("values", of, of, ["Key", "", ([name]) => name], looks, (look) => ([, times]) => {
    const found = times.find((time) => time.seconds === look.seconds);
    return found ? number(found.value) : "";
  }, rows);
}

// A table of what was seen at each look, which is opened on demand. `what` and `of` tell it from other parts of the page,
// `name` is that for readers; `cell` is called with a look, and returns what makes a row's cell.
export function overTimeAsTable(what, of, name, first, looks, cell, rows) {
  return h("details", { "data-of": `${what} of ${of}` }, h("summary", null, "Over time, as a table"),
    h("div", { class: "heatmap", "data-of": `table of ${of}`, tabindex: 0, role: "region", "aria-label": `Table of ${name}` },
      table(`${name} over time`, [first, ...looks.map((look) => [`${look.seconds} s`, "number", cell(look)])], rows)));
}

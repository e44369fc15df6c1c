// SPDX-License-Identifier: LGPL-2.1-or-later
// The aggregations of a D program: counts as a table with bars, other numbers as lines over time, and distributions as tables
// with bars and as heat maps over time.

import { flame } from "./flame.js";
import { h, number, plural, s, short, table, times as firstAndLast } from "./dom.js";
import { overTime, overTimeAsTable } from "./lines.js";

const CELL = [14, 14]; // pixels of a heat map's cell
const LEFT = 90; // pixels for the names of buckets
const SHADES = 6;

// What a D program has aggregated; null if that is nothing.
export function aggregations(found) {
  const shown = (found ?? []).filter((one) => one.rows.length);
  if (!shown.length) return null;
  return h("section", { "aria-label": "Aggregations" }, h("h2", null, "Aggregations"), shown.map((one) =>
    h("section", null, h("h3", null, `@${one.name === "_" ? "" : one.name} ${one.function}()`),
      one.left_out ? h("p", null, `${plural(one.left_out, "row")} with less are left out`) : null,
      one.rows[0].values[0]?.distribution ? [...one.rows].reverse().map((row) => distribution(one, row)) : numbers(one))));
}

// The text of a key or of a value.
export function said(one) {
  if (typeof one === "number") return number(one);
  if (typeof one === "string") return one;
  if (one.symbol !== undefined) return said(one.symbol);
  if (one.stack) return one.stack.map(said).join(" ← ");
  return one.bytes ?? JSON.stringify(one);
}

// A frame of a stack in a flame graph: its function, wherever in it the call is.
function frame(one) {
  return said(one).replace(/^vmlinux`/, "").replace(/\+0x[0-9a-f]+$/, "");
}

function numbers(one) {
  const rows = [...one.rows].reverse();
  const most = Math.max(1, ...rows.map((row) => Math.abs(row.values[0])));
  const at = rows[0].keys.findIndex((key) => key?.stack);
  if (at >= 0 && rows.every((row) => row.values[0] >= 0)) {
    return [flame(one.name, rows.map((row) =>
      [[...row.keys.filter((_, place) => place !== at).map(said), ...[...row.keys[at].stack].reverse().map(frame)], row.values[0]])),
    h("details", { "data-of": `counts of ${one.name}` }, h("summary", null, "Counts"), counted(one, rows, most))];
  }
  const grown = rows.filter((row) => row.times?.length).map((row) => [keyOf(row), row.times]);
  return [grown.length ? overTime(one.name, grown) : null, counted(one, rows, most)];
}

function keyOf(row) {
  return row.keys.map(said).join(", ") || "all";
}

// Functions whose values can be compared by their lengths; a bar of an average would say nothing.
const SHARED = ["count", "sum"];

function counted(one, rows, most) {
  return table(`Rows of ${one.name}`, [
    ["Key", "", keyOf],
    [one.function, "number", (row) => number(row.values[0])],
    ...(SHARED.includes(one.function) ? [["Share", "", (row) => bar(Math.abs(row.values[0]) / most)]] : []),
  ], rows);
}

function distribution(one, row) {
  const buckets = row.values[0].distribution.filter((bucket) => bucket.count);
  const most = Math.max(1, ...buckets.map((bucket) => Math.abs(bucket.count)));
  const total = buckets.reduce((sum, bucket) => sum + bucket.count, 0);
  const name = keyOf(row);
  return h("figure", { "data-of": `rows of ${one.name} ${name}` }, h("figcaption", null, h("strong", null, name), ` ${plural(total, "value")}`),
    heatOverTime(`${one.name} ${name}`, name, row.times, buckets),
    h("details", { "data-of": `counts of ${one.name} ${name}`, open: one.rows.length === 1 }, h("summary", null, "Counts"),
      table(`Distribution of ${one.name}, ${name}`, [
        ["From", "number", (bucket) => bucket.bucket.trim()],
        ["Count", "number", (bucket) => number(bucket.count)],
        ["Share", "", (bucket) => bar(Math.abs(bucket.count) / most)],
      ], buckets)));
}

// The heat map of a distribution whose looks are `times`; null until there are two. `of` names it among all parts of the page.
// The buckets are {value, bucket: its text}.
export function heatOverTime(of, name, times, buckets) {
  return times?.length > 1 && buckets.length ? heat(of, name, times, buckets) : null;
}

// A heat map: value up, time to the right. A darker cell has got more since the reading before, on a logarithmic scale.
function heat(of, name, times, buckets) {
  const rows = [...buckets].reverse();
  const most = Math.max(1, ...times.flatMap((time) => time.more.map(([, count]) => count)));
  const [width, height] = [LEFT + Math.max(times.length * CELL[0], 100), rows.length * CELL[1] + 18];
  const at = new Map(rows.map((bucket, place) => [bucket.value, place]));
  const cells = times.flatMap((time, column) => time.more.filter(([value, count]) => count > 0 && at.has(value)).map(([value, count]) =>
    s("rect", { class: `shade${shade(count, most)}`, x: LEFT + column * CELL[0], y: at.get(value) * CELL[1], width: CELL[0] - 1, height: CELL[1] - 1 },
      s("title", null, `${number(count)} from ${rows[at.get(value)].bucket.trim()} at ${time.seconds} s`))));
  const label = `Heat map of ${name}: value up, time to the right, ${times[0].seconds} s to ${times[times.length - 1].seconds} s`;
  return h("div", null,
    h("div", { class: "heatmap", "data-of": `map of ${of}`, tabindex: 0, role: "region", "aria-label": label },
      s("svg", { width, height, role: "img", "aria-label": label },
        rows.map((bucket, place) => s("text", { x: LEFT - 6, y: place * CELL[1] + 11, "text-anchor": "end" }, bucket.bucket.trim())),
        cells,
        firstAndLast(times[0].seconds, times[times.length - 1].seconds, LEFT, LEFT + times.length * CELL[0], height - 4))),
    overTimeAsTable("times", of, name, ["From", "number", (bucket) => bucket.bucket.trim()], times, (time) => (bucket) => {
      const found = time.more.find(([value]) => value === bucket.value);
      return found ? short(found[1]) : "";
    }, rows));
}

function shade(count, most) {
  return Math.min(SHADES, Math.max(1, Math.round((SHADES * Math.log(1 + count)) / Math.log(1 + most))));
}

function bar(share) {
  return s("svg", { class: "bar", width: 120, height: 10, "aria-hidden": "true" },
    s("rect", { width: Math.max(share ? 1 : 0, Math.round(120 * share)), height: 10 }));
}

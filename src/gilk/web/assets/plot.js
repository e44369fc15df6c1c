// SPDX-License-Identifier: LGPL-2.1-or-later
// The plots of a file of samples: what came when, durations over time, histograms and spectra.

import { h, number, plural, roomWide, s, show, table } from "./dom.js";
import { axis, told } from "./axis.js";
import { command, goTo, refused } from "./frame.js";
import { get } from "./talk.js";
import { views } from "./views.js";

const KINDS = [["scatter", "durations or values, each a mark"], ["step", "which point when"], ["histogram", "how many of each size"], ["spectrum", "how arrivals repeat (power spectrum)"]];
const CHOICES = [
  ["by", "A series for each", [["", "suits the plot"], ["process"], ["thread"], ["function"], ["point"], ["all", "(one for all)"]]],
  ["values", "Values", [["", "suit the samples"], ["duration", "durations"], ["interval", "times between events"], ["value", "logged values"], ["number", "running numbers"]]],
  ["scale", "Scale", [["", "suits the values"], ["log", "logarithmic"], ["linear", "linear"]]],
];
const [HEIGHT, FOOT, TOP, LETTER] = [340, 44, 10, 7]; // pixels
const NAMED = 40; // the most points that are named beside the axis

export async function plot(place, id) {
  const words = new URLSearchParams(location.search);
  const fields = form(id, words);
  const ending = new AbortController();
  addEventListener("gilk-leave", () => ending.abort(), { once: true });
  show(place, h("h1", null, "Plots"), views(id, "plot"), fields, h("p", { role: "status" }, "Reading the samples …"));
  let found;
  try {
    found = await get(`/file/${id}/plot.json?${words}`, ending.signal);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    show(place, h("h1", null, "Plots"), views(id, "plot"), fields, refused(error));
    return;
  }
  show(place, h("h1", null, found.name), views(id, "plot"), fields,
    h("h2", null, found.title),
    h("div", { class: "graph plot", tabindex: 0, role: "region", "aria-label": `Plot: ${found.y_label} over ${found.x_label}` }, picture(found)),
    found.notes.length ? h("ul", null, found.notes.map((note) => h("li", null, note))) : null,
    legend(found), command(found.command));
}

// The choices; each change draws anew.
function form(id, words) {
  const draw = () => {
    const chosen = new URLSearchParams();
    for (const field of place.querySelectorAll("select, input")) if (field.value.trim()) chosen.set(field.id, field.value.trim());
    goTo(`/file/${id}/plot?${chosen}`);
  };
  const select = (name, label, options) => h("p", { class: "field" }, h("label", { for: name }, label),
    h("select", { id: name, onchange: draw }, options.map(([value, text]) => h("option", { value, selected: (words.get(name) ?? options[0][0]) === value }, text ?? value))));
  const place = h("form", { class: "fields", onsubmit: (event) => { event.preventDefault(); draw(); } },
    select("kind", "Plot", KINDS.map(([value, text]) => [value, `${value}: ${text}`])),
    CHOICES.map(([name, label, options]) => select(name, label, options)),
    h("p", { class: "field" }, h("label", { for: "of" }, "Only points or functions"),
      h("input", { id: "of", value: words.get("of") ?? "", placeholder: "parse_* write", autocomplete: "off", spellcheck: "false" }), h("button", null, "Draw")));
  return place;
}

function ends(numbers) {
  return numbers.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
}

function picture(found) {
  const series = found.series.map((one) => ({ ...one, ...drawable(found, one) }));
  const xs = series.flatMap((one) => ends(one.x)).filter(Number.isFinite);
  const ys = series.flatMap((one) => ends(one.y)).filter(Number.isFinite);
  if (!xs.length) return h("p", null, "Nothing of it has a place on these axes.");
  const left = Math.min(220, LETTER * Math.max(6, ...found.ticks.map((name) => Math.min(name.length, 30)))) + 12;
  const width = Math.max(300, roomWide());
  const x = axis(...ends(xs), found.x_log, left, width - 12);
  const floor = found.kind === "histogram" && !found.y_log ? [0] : [];
  const y = axis(...ends([...ys, ...floor]), found.y_log, HEIGHT - FOOT, TOP);
  const label = `${found.y_label} over ${found.x_label}: ${plural(series.length, "series")}; the table below has their figures`;
  return s("svg", { width, height: HEIGHT, role: "img", "aria-label": label },
    x.marks.map((value) => s("g", { class: "mark" }, s("path", { d: `M${x.at(value).toFixed(1)} ${TOP}V${HEIGHT - FOOT}` }),
      s("text", { x: x.at(value), y: HEIGHT - FOOT + 15, "text-anchor": "middle" }, told(value)))),
    found.ticks.length ? names(found.ticks, y, left, width) : y.marks.map((value) => s("g", { class: "mark" },
      s("path", { d: `M${left} ${y.at(value).toFixed(1)}H${width - 12}` }), s("text", { x: left - 6, y: y.at(value) + 4, "text-anchor": "end" }, told(value)))),
    s("text", { x: (left + width) / 2, y: HEIGHT - 8, "text-anchor": "middle" }, `${found.x_label}; upwards: ${found.y_label}`),
    series.map((one, at) => drawn(way(found.kind, one, x, y), { class: `series ${found.kind} series${at}` }, s("title", null, one.name))));
}

// A path. Its way is longer than a text from a target may be (dom.js), and has numbers alone.
function drawn(d, facts, ...children) {
  const path = s("path", facts, ...children);
  path.setAttribute("d", d);
  return path;
}

// The numbers of a series that have a place: on a logarithmic axis those above 0.
function drawable(found, one) {
  if (found.kind === "histogram") return { x: one.x, y: one.y };
  const kept = one.x.map((value, at) => at).filter((at) => !(found.x_log && one.x[at] <= 0) && !(found.y_log && one.y[at] <= 0));
  return { x: kept.map((at) => one.x[at]), y: kept.map((at) => one.y[at]) };
}

function names(ticks, y, left, width) {
  const every = Math.ceil(ticks.length / NAMED);
  return ticks.map((name, at) => (at % every ? null : s("g", { class: "mark" }, s("path", { d: `M${left} ${y.at(at).toFixed(1)}H${width - 12}` }),
    s("text", { x: left - 6, y: y.at(at) + 4, "text-anchor": "end" }, name.length > 30 ? `…${name.slice(-29)}` : name, s("title", null, name)))));
}

function way(kind, one, x, y) {
  const places = one.y.map((value, at) => [x.at(one.x[at]).toFixed(1), y.at(value).toFixed(1)]);
  if (kind === "scatter") return places.map(([across, up]) => `M${across} ${up}h0`).join("");
  if (kind === "spectrum") return places.map(([across, up], at) => `${at ? "L" : "M"}${across} ${up}`).join("");
  if (kind === "step") return places.map(([across, up], at) => (at ? `H${across}V${up}` : `M${across} ${up}`)).join("");
  const foot = y.at(0).toFixed(1);
  return one.y.map((value, at) => (value ? `M${x.at(one.x[at]).toFixed(1)} ${foot}V${y.at(value).toFixed(1)}H${x.at(one.x[at + 1]).toFixed(1)}V${foot}` : "")).join("");
}

function legend(found) {
  const span = (numbers) => (numbers.length ? ends(numbers).map(told).join(" to ") : "");
  return table("Series", [
    ["Line", "", (one) => s("svg", { width: 24, height: 12, class: "plot", "aria-hidden": "true" }, s("path", { class: `series spectrum series${found.series.indexOf(one)}`, d: "M1 6h22" }))],
    ["Series", "name", (one) => one.name],
    ["Events", "number", (one) => number(one.events)],
    ["Drawn", "number lesser", (one) => number(one.drawn)],
    found.ticks.length ? null : [found.y_label, "number lesser", (one) => span(one.y)],
  ].filter(Boolean), found.series);
}

// SPDX-License-Identifier: LGPL-2.1-or-later
// The times of an experiment's instruments, a bar for each: the planned times, and the real ones of a session.

import { fileId, h, number, s, table } from "./dom.js";

const HEIGHT = 30; // pixels of a row
const LABELS = 0.3; // share of the width for the names
const WIDTH = 900;
export const STEP = 0.1; // seconds by which a key moves an end of a bar
const LEFT = WIDTH * LABELS;

export function seconds(value) {
  return `${Number(value.toFixed(3))} s`;
}

// The seconds that the picture covers: the planned duration, or somewhat more than the last end.
export function span(values, now = 0) {
  const ends = values.instruments.flatMap((one) => [one.start, one.stop ?? 0]);
  const last = Math.max(...ends, now, values.duration ?? 0);
  return values.duration !== null && values.duration >= last ? values.duration : Math.max(1, last * 1.25);
}

function at(second, whole) {
  return LEFT + (WIDTH - LEFT - 12) * Math.min(1, second / whole);
}

export function secondsAt(pixels, width, whole) {
  const x = (pixels / width) * WIDTH;
  return Math.max(0, Math.min(whole, ((x - LEFT) / (WIDTH - LEFT - 12)) * whole));
}

function ticks(whole) {
  const step = 10 ** Math.floor(Math.log10(whole / 2));
  const wide = [1, 2, 5, 10].map((one) => one * step).find((one) => whole / one <= 8);
  return Array.from({ length: Math.floor(whole / wide + 1e-6) + 1 }, (_, index) => Number((index * wide).toPrecision(6)));
}

function name(text, y) {
  const short = text.length > 34 ? `${text.slice(0, 33)}…` : text;
  return s("text", { x: 4, y: y + 19 }, s("title", null, text), short);
}

// The picture. `rows` are {name, draw(y, x)}; draw() makes the row's shapes at height y, and x(second) is a horizontal place.
export function picture(label, rows, whole) {
  const high = rows.length * HEIGHT + 24;
  const x = (second) => at(second, whole);
  return s("svg", { class: "bars", viewBox: `0 0 ${WIDTH} ${high}`, role: "group", "aria-label": label },
    ticks(whole).map((second) => s("g", { class: "tick", "aria-hidden": "true" },
      s("line", { x1: x(second), x2: x(second), y1: 0, y2: high - 20 }),
      s("text", { x: x(second), y: high - 6, "text-anchor": second === 0 ? "start" : "end" }, seconds(second)))),
    rows.map((row, index) => s("g", { class: row.kind ?? "" }, name(row.name, index * HEIGHT), row.draw(index * HEIGHT, x))));
}

export function bar(y, from, to, kind) {
  return s("rect", { class: kind, x: from, y: y + 5, width: Math.max(2, to - from), height: HEIGHT - 12, rx: 3 });
}

// Links to the files of samples that a session has written; null if there are none.
export function written(state) {
  const names = (state.report?.runs ?? []).map((run) => run.file).filter(Boolean);
  if (!names.length) return null;
  return h("p", null, "Samples: ", names.map((one, index) => [index ? ", " : "",
    h("a", { href: `/file/${fileId(one.startsWith("/") ? one : `${state.folder}/${one}`)}/timeline` }, one)]));
}

// A session of an experiment: the planned times as bars, and over each the time in which the instrument really was in.
export function happened(state) {
  const done = state.planned ? state.experiment : state.stages;
  const placed = done?.instruments ?? [];
  const planned = state.planned ?? { duration: null, instruments: placed.map((one) => ({ start: one.start_s, stop: one.stop_s })) };
  const now = state.seconds ?? 0;
  const whole = span(planned, now);
  const end = state.end ? Math.max(now, 0.001) : null;
  const rows = placed.map((one) => ({ name: one.target && state.planned ? `${one.instrument}, ${one.target}` : one.instrument, kind: one.failure ? "failed" : "",
    draw: (y, x) => [bar(y, x(one.start_s), x(one.stop_s ?? planned.duration ?? whole), "planned"),
      one.in ? active(since(one.in[1], done), one.out ? since(one.out[1], done) : end ?? now, done).map(([from, to]) =>
        s("rect", { class: "actual", x: x(from), y: y + 12, height: 4, width: Math.max(2, x(to) - x(from)) })) : null] }));
  if (!rows.length) return null;
  const timed = state.planned || placed.some((one) => one.start_s || one.stop_s !== null);
  return h("section", { "aria-label": "Experiment" }, h("h2", null, "When each instrument is in"),
    done.repetitions > 1 ? h("p", null, `Repetition ${done.repetition} of ${done.repetitions}`) : null,
    !timed ? null : h("div", { class: "graph", tabindex: 0, role: "region", "aria-label": "Bars" }, picture("Planned times as wide bars, real ones as thin bars over them", rows, whole)),
    h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Instruments" }, table("Instruments", [
      ["Instrument", "", (one) => one.instrument],
      ...(state.planned ? [["Target", "", (one) => one.target]] : []),
      ["State", "", (one) => stateOf(one, state)],
      ["Planned", "", (one) => `${seconds(one.start_s)} to ${one.stop_s === null ? "the end" : seconds(one.stop_s)}`],
      ["In at", "number", (one) => (one.in ? seconds(since(one.in[1], done)) : "")],
      ["Out at", "number", (one) => (one.out ? seconds(since(one.out[1], done)) : "")],
      ["Points", "number", (one) => number(one.points)],
      ["Refused", "number", (one) => number(one.refused)],
      ...(placed.some((one) => one.failure) ? [["Failure", "", (one) => one.failure]] : []),
    ], placed)));
}

// The parts of the time from one second to another in which the session was not paused.
function active(from, to, done) {
  const parts = [];
  for (const [begin, end] of done.pauses ?? []) {
    const [low, high] = [since(begin, done), end === null ? to : since(end, done)];
    if (high <= from || low >= to) continue;
    if (low > from) parts.push([from, low]);
    from = Math.min(high, to);
  }
  return from < to || !parts.length ? [...parts, [from, to]] : parts;
}

// What an instrument does now, in a word; of one that is taken out at its hits also how many points are still to be hit.
function stateOf(one, state) {
  if (one.state === "waiting") return state.end ? "never in" : "waiting";
  if (one.state === "never") return "never in";
  if (one.state === "out" || state.end) return "finished";
  return one.present < one.spliced ? `on, at ${number(one.present)} of ${number(one.points)} points still` : "on";
}

function since(nanoseconds, done) {
  return Math.max(0, (nanoseconds - done.began) / 1e9);
}

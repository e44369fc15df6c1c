// SPDX-License-Identifier: LGPL-2.1-or-later
// The page of a session: its state while it runs, and at the end whether the code was restored.

import {
  capital, dropped, duration, h, isMachine, lines, number, percent, plural, renew, s, short, show, table, trouble,
} from "./dom.js";
import { command, notice } from "./frame.js";
import { aggregations, heatOverTime } from "./growing.js";
import { overTime } from "./lines.js";
import { happened, written } from "./bars.js";
import { Rates } from "./rows.js";
import { follow, get, post } from "./talk.js";

// The parts of a session's page, and the members of its state that they show.
const ABOVE = ["seconds", "hits", "records", "bytes", "drops", "cost", "trace", "report", "summing", "doing", "out", "end", "target", "planned", "stages",
  "experiment", "folder"];
const FIGURES = [
  [["stages"], ({ stages }) => edges(stages?.edges ?? {})],
  [["counts", "end", "now"], (of) => counts(of, of.now)],
  [["latency", "drops"], ({ latency, drops }) => latencies(latency ?? {}, drops)],
  [["cost", "drops"], ({ cost, drops }) => costs(cost, drops)],
  [["last"], ({ last }) => records(last ?? [])],
  [["refused"], refusedPoints],
];

function pick(state, names) {
  return Object.fromEntries(names.filter((name) => name in state).map((name) => [name, state[name]]));
}

export async function session(place, text) {
  const first = await get(`/session/${text}.json`);
  const [outcome, above, grown] = [h("div"), h("div"), h("div")];
  const places = FIGURES.map(() => h("div"));
  const output = h("div");
  const hasCommand = Boolean(first.workload && !first.aggregations); // then its output is less than the figures
  const figures = h("div", { role: "region", "aria-label": "Figures" }, hasCommand ? [places, output] : [output, places]);
  const out = h("button", { class: "main", onclick: async () => {
    out.disabled = true;
    notice("");
    try {
      await post("/session/end", { session: first.number });
    } catch (error) {
      notice(trouble(error));
    }
  } }, "Take out");
  const rates = new Rates();
  const halt = h("button", { hidden: true, title: "The probes do not fire until Resume; counts stand", onclick: async () => {
    halt.disabled = true;
    try {
      await post("/session/pause", { session: first.number, paused: !latest.paused });
    } catch (error) {
      notice(trouble(error));
    }
    halt.disabled = false;
  } }, "Pause");

  const counting = new Counting(first.number);
  let [latest, still] = [first, false];
  const pause = h("button", { "aria-pressed": "false", title: "The session goes on; the page stands still", onclick: () => {
    still = !still;
    pause.setAttribute("aria-pressed", String(still));
    if (!still) told(latest);
  } }, "Pause the view");

  // The news of a session that is over, or is being taken out, are shown at once.
  function heard(state) {
    latest = state;
    halt.hidden = state.paused === undefined || Boolean(state.end || state.out);
    halt.textContent = state.paused ? "Resume" : "Pause";
    if (state.end || state.out) still = false;
    pause.hidden = Boolean(state.end || state.out);
    if (!still) told(state);
  }

  function told(state) {
    out.disabled = Boolean(state.end) || isOut(state);
    renew(outcome, pick(state, ["end", "out", "report", "paused", "still"]), ending);
    counting.told(state);
    const now = rates.of(state);
    renew(grown, state.aggregations, aggregations);
    renew(above, pick(state, ABOVE), (of) => [facts(of), traced(of), of.planned || of.stages?.instruments ? happened(of) : null, written(of)]);
    renew(output, pick(state, ["printed", "bytes", "planned"]), (of) => printed(of, Boolean(first.aggregations)));
    FIGURES.forEach(([names, make], at) => renew(places[at], pick({ ...state, now }, names), make));
  }
  show(place,
    h("h1", null, `Session ${first.number}: ${first.title}`),
    first.aggregations ? h("pre", { tabindex: 0, "aria-label": "Program" }, lines(first.requests[0])) : h("p", null, first.requests.join(", ")),
    first.workload ? h("p", null, "Meanwhile in the lab: ", h("code", null, first.workload)) : null,
    blocksOf(first),
    h("p", { class: "acts" }, out, halt, pause, first.planned ? h("a", { href: `/experiment/${first.target}` }, "The experiment") : h("a", { href: `/target/${first.target}` }, first.target === "lab" ? "The lab" : isMachine(first.target) ? "The machine" : "The target")),
    outcome, counting.place, above, grown, figures, command(first.command, first.python));
  heard(first);
  return follow(first.number, heard);
}

const POINT = /^(?:([^:*?[=]*):)?([^:*?[=]+)(?::(?:entry|return|blocks|blocks-post|@\d+:(?:pre|post)|\+0x[0-9a-f]+)=|=@)/;

// Links to the graphs of the functions that have instruments, where the hits are shown. Names with globs mean several.
function blocksOf(first) {
  const found = first.requests.map((each) => POINT.exec(each)).filter(Boolean);
  const links = new Map(found.map(([, image, name]) => [name, new URLSearchParams(image ? { at: name, image } : { at: name })]));
  if (first.aggregations || first.planned || !links.size) return null;
  return h("p", null, "See the hits in the graph of ", [...links].map(([name, words], at) =>
    [at ? ", " : "", h("a", { href: `/target/${first.target}/function?${words}` }, name)]));
}

// The last records of instruments in C, the newest first.
function records(last) {
  if (!last.length) return null;
  return h("section", null, h("h2", null, "Last records"), table("Last records", [
    ["Point", "name", (one) => one.point],
    ["Thread", "number lesser", (one) => one.tid],
    ["Value", "number", (one) => one.text ?? one.value ?? ""],
    ...(last.some((one) => one.extra !== undefined) ? [["Second value", "number", (one) => one.extra ?? ""]] : []),
  ], last.toReversed()));
}

// How a session ends, or that it is paused; null while it goes on.
function ending(state) {
  return isOver(state) ? ended(state) : isOut(state) ? h("p", { role: "status" }, restored(state))
    : state.end ? h("p", { role: "status" }, "Taking everything out …")
      : [state.paused ? h("p", { role: "status" }, "Paused: the code is what it was, and no probe fires, until Resume. Counts stand.") : null,
        (state.still ?? []).map((one) => h("p", { role: "status" }, standing(one)))];
}

// Why a process stands still, and what lets it go on.
function standing(one) {
  return one.tracer ? `Process ${one.pid} stands still: a debugger has stopped it, process ${one.tracer} (${one.name}). Probes fire again when that lets it go on.`
    : `Process ${one.pid} stands still: a signal has stopped it, such as SIGSTOP or Ctrl-Z. Probes fire again when it goes on, as by kill -CONT ${one.pid}.`;
}

// Whether everything is out while the report is still being made. An experiment puts it in again for its next repetition.
function isOut(state) {
  return Boolean(state.out) && !isOver(state);
}

function isOver(state) {
  return Boolean(state.end) && state.report !== undefined;
}

// The progress of the report, which may take minutes after everything is out, with a button to do without it.
class Counting {
  constructor(session) {
    this.what = h("p");
    this.leave = h("button", { onclick: async () => {
      this.leave.disabled = true;
      try {
        await post("/session/leave-out", { session });
      } catch (error) {
        notice(trouble(error));
        this.leave.disabled = false;
      }
    } }, "Do without the report");
    this.place = h("section", { "aria-label": "Still to be done", hidden: true }, this.what, h("p", { class: "acts" }, this.leave));
  }

  told(state) {
    this.place.hidden = !isOut(state) || !state.summing;
    this.what.textContent = state.summing ? `The report is being made: ${state.summing.what} …` : "";
  }
}

function restored(state) {
  const told = state.report ?? state.out;
  return !told ? "What became of the code was not told: the session's process was killed, and gilk's keeper has undone its work."
    : told.restored === true ? "Everything is out, and the code was compared: it is what it was."
      : told.restored === false ? "The code is NOT what it was before."
        : "The code could not be compared: the target has ended, or others have probes in it still.";
}

function ended(state) {
  const { report } = state;
  const bad = (report ?? state.out)?.restored === false;
  return h("section", { class: bad ? "refused" : "outcome", role: "status" },
    h("h2", null, "It is over"), h("p", null, `${capital(state.end)}. ${restored(state)}`),
    report ? report.notes.map((note) => h("p", null, note)) : state.out ? h("p", null, "There is no report: its making was ended.") : null);
}

// A trace: what it waits for, and when it is over where it is.
export function traced(state) {
  if (!state.trace) return null;
  const { report } = state;
  const filed = state.summing?.filed;
  if (!report && !filed) return state.doing && !isOut(state) ? h("p", { role: "status" }, `It is ${state.doing} …`) : null;
  const file = `/file/${state.trace.id}`;
  return h("section", null, h("h2", null, "The trace"),
    (report ? report.kept : filed) ? h("p", null, h("a", { href: `${file}/timeline` }, "Time line"), ", ", h("a", { href: `${file}/tree` }, "tree"), ", ",
      h("a", { href: `${file}/flame` }, "flame graph"), ` of ${state.trace.name}`) : h("p", null, "There is no file of it."),
    report?.trace?.calls === 0 && report.trace.omitted?.length ? h("p", null, "All that ran is called so often that following it would slow the program down: ",
      h("a", { href: `/target/${state.target}/trace?all=1` }, "follow it all the same"), ".") : null,
    report?.text ? h("pre", { tabindex: 0, class: "printed", role: "region", "aria-label": "Report" }, lines(report.text)) : null);
}

// Instruments that only make records count no hits.
export function facts(state) {
  const rows = [["time", `${(state.seconds ?? 0).toFixed(1)} s`], ["hits", state.hits || !state.records ? state.hits : undefined], ["records", state.records],
    ["bytes printed", state.bytes], ["dropped", dropped(state.drops ?? 0, state.records)],
    ["taken by probes", state.cost ? `about ${duration(state.cost.ns)} (${percent(state.cost.share)} of a processor)` : undefined]]
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => [name, typeof value === "number" ? number(value) : value]);
  return [h("dl", { class: "facts" }, rows.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value)))),
    state.drops && state.hits !== undefined ? h("p", { role: "status" }, "Records were dropped: they came faster than gilk took them. Hits are all there. Times and records lack those calls; "
      + "fewer points, or count in place of time, make fewer records.") : null];
}

// The last lines that a D program has printed.
function printed(state, isProgram) {
  if (state.printed === undefined || (state.planned && !state.printed && !state.planned.workload)) return null;
  return h("section", null, h("h2", null, "Printed"),
    state.bytes > state.printed.length ? h("p", null, "Only the end is shown.") : null,
    h("pre", { class: "printed", role: "region", tabindex: 0, "aria-label": isProgram ? "Output of the program" : "Output of the workload" }, lines(state.printed)));
}

export function counts(state, rates) {
  const rows = Object.entries(state.counts ?? {}).sort((one, other) => other[1] - one[1]);
  if (!rows.length) return null;
  const most = Math.max(1, rows[0][1]);
  return h("section", null, h("h2", null, "Counts"),
    table("Hits of each point", [
      ["Point", "", ([point]) => point],
      ["Hits", "number", ([, count]) => number(count)],
      ...(state.end ? [] : [["Now", "number", ([point]) => (point in rates ? `${short(rates[point])}/s` : "")]]),
      ["Share", "lesser", ([, count]) => bar(count / most)],
    ], rows.slice(0, 200)),
    rows.length > 200 ? h("p", null, `and ${plural(rows.length - 200, "point")} with fewer hits`) : null);
}

// How often each edge was taken, by the strategy edges.
function edges(found) {
  const rows = Object.entries(found).sort((one, other) => (other[1] ?? -1) - (one[1] ?? -1));
  if (!rows.length) return null;
  const most = Math.max(1, rows[0][1] ?? 0);
  const unknown = rows.filter(([, count]) => count === null).length;
  return h("section", null, h("h2", null, "Edges"),
    unknown ? h("p", null, `${plural(unknown, "edge")} cannot be told from the counts of blocks: "?".`) : null,
    table("How often each edge is taken", [
      ["Edge", "", ([name]) => name],
      ["Taken", "number", ([, count]) => (count === null ? "?" : number(count))],
      ["Share", "lesser", ([, count]) => bar((count ?? 0) / most)],
    ], rows.slice(0, 200)),
    rows.length > 200 ? h("p", null, `and ${plural(rows.length - 200, "edge")} that are taken less often`) : null);
}

function bar(share) {
  return s("svg", { class: "bar", width: 120, height: 10, "aria-hidden": "true" },
    s("rect", { width: Math.max(share ? 1 : 0, Math.round(120 * share)), height: 10 }));
}

// What the probes have taken of the program, point by point.
function costs(cost, dropped) {
  if (!cost?.points.length) return null;
  return h("details", { class: "cost" },
    h("summary", null, "What the probes cost"),
    h("p", null, "About: the hits, times what a hit takes. That was measured on this machine, in a small program of gilk's own; it is the least that a hit takes. ",
      cost.unknown ? `${plural(cost.unknown, "point")} with instruments whose cost is not known: C takes what its code takes. ` : "",
      dropped ? "Hits whose records were dropped are not in it." : ""),
    table("Cost of each point", [
      ["Point", "name", (one) => one.point],
      ["Instrument", "lesser", (one) => one.instrument],
      ["Hits", "number", (one) => number(one.hits)],
      ["A hit", "number lesser", (one) => `${one.each_ns.toFixed(1)} ns`],
      ["Together", "number", (one) => duration(one.ns)],
    ], cost.points.slice(0, 50)),
    cost.points.length > 50 ? h("p", null, "These are the 50 that have cost most.") : null);
}

function latencies(found, drops) {
  const rows = Object.entries(found).filter(([, each]) => each.calls);
  if (!rows.length) return null;
  return h("section", null, h("h2", null, "Times of calls"), callsOverTime(rows, drops), rows.map(([name, each]) => histogram(name, each, drops)));
}

// The calls in each second, of the functions with most.
function callsOverTime(rows, drops) {
  const grown = rows.filter(([, { times }]) => times?.length > 2).map(([name, { times }]) => [name, times.slice(1).map((look, at) =>
    ({ seconds: look.seconds, value: Math.round(look.more.reduce((sum, [, count]) => sum + count, 0) / (look.seconds - times[at].seconds)) }))]);
  if (!grown.length) return null;
  const what = drops ? "Recorded calls in a second" : "Calls in a second";
  return h("section", null, h("h3", null, what), overTime(what.toLowerCase(), grown));
}

// With drops, calls are missing, perhaps more of short ones than of long ones.
function histogram(name, each, drops) {
  const used = each.octaves.map((count, bits) => [bits, count]).filter(([, count]) => count);
  const [low, high] = [used[0][0], used[used.length - 1][0]];
  const most = Math.max(...each.octaves);
  const rows = each.octaves.slice(low, high + 1).map((count, at) => [range(low + at), count]);
  const buckets = rows.map((_, at) => ({ value: low + at, bucket: low + at ? duration(2 ** (low + at - 1)) : "0 ns" }));
  return h("figure", { "data-of": `times of ${name}` },
    h("figcaption", null, h("strong", null, name), ` ${plural(each.calls, "call")}${drops ? " that were recorded; others were dropped. Of the recorded ones" : ":"} half take about ${duration(each.p50)} or less; 90 %: ${duration(each.p90)}; `
      + `99 %: ${duration(each.p99)}`),
    heatOverTime(`times of ${name}`, `the times of ${name}`, each.times, buckets),
    table(`Times of ${name}`, [
      ["Time", "", ([text]) => text],
      ["Calls", "number", ([, count]) => number(count)],
      ["Share", "lesser", ([, count]) => bar(count / most)],
    ], rows));
}

function range(bits) {
  return bits ? `${duration(2 ** (bits - 1))} to ${duration(2 ** bits)}` : "0 ns";
}

function refusedPoints(state) {
  const rows = Object.entries(state.refused ?? {});
  if (!rows.length) return null;
  return h("section", null, h("h2", null, "Refused points"),
    table("Refused points", [["Point", "", ([point]) => point], ["Reason", "", ([, reason]) => reason]], rows));
}

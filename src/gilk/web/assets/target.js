// SPDX-License-Identifier: LGPL-2.1-or-later
// A target's images, and its functions, which are searched while the user types, with words that say what can be instrumented.

import { h, isMachine, number, plural, show, table, trouble } from "./dom.js";
import { again, command, notice, refused } from "./frame.js";
import { get, post } from "./talk.js";
import { add } from "./pane.js";
import { sessionRows } from "./rows.js";
import { machine } from "./machine.js";
import { typedField } from "./typed.js";

const MARKS = {
  all: ["●", "all points"], some: ["◐", "some points"], none: ["▲", "no point"], "not-analysed": ["○", "not analysed"],
};
const SORTS = [["match", "best match"], ["name", "name"], ["address", "address"], ["size", "size"],
  ["blocks", "blocks"], ["refused", "refused points"]];

const SCREEN = 40; // rows

export async function target(place, id) {
  const found = await get(`/target/${id}.json`);
  if (found.machine) return machine(place, found);
  show(place,
    h("h1", null, found.title),
    found.sessions.length ? h("section", null, h("h2", null, "Sessions"), sessionRows(found.sessions)) : null,
    about(id),
    id.startsWith("pid-") ? typedField(id, (text) => add(id, text)) : null,
    h("h2", null, isKernel(id) ? "Kernel and modules" : "Program and libraries"),
    images(id, found));
}

export function images(id, found) {
  return table(plural(found.images.length, "image"), [
    ["Image", "", (one) => h("a", { href: symbolsAddress(id, one.pattern) }, one.name)],
    isKernel(id) ? null : ["File", "", (one) => one.path],
    ["Analysed", "", (one) => (one.surveyed ? "yes" : "not yet")],
  ].filter(Boolean), found.images);
}

function isKernel(id) {
  return id === "kernel" || isMachine(id);
}

function about(id) {
  return id.startsWith("pid-") ? h("p", null, h("a", { href: `/target/${id}/trace` }, "Trace its calls"), ", ",
    h("a", { href: `/target/${id}/d` }, "run a D program in it")) : null;
}

function symbolsAddress(id, image, more = {}) {
  const words = new URLSearchParams(image ? { image, ...more } : more).toString();
  return `/target/${id}/symbols${words ? `?${words}` : ""}`;
}

export async function symbols(place, id) {
  const known = await get(`/target/${id}.json`);
  if (known.machine && known.machine.state !== "up") return machine(place, known);
  const asked = new URLSearchParams(location.search);
  const rows = h("div");
  const counted = h("p", { class: "counted", role: "status" });
  let waiting = null;

  const query = h("input", { type: "search", id: "q", value: asked.get("q") ?? "", autocomplete: "off",
    spellcheck: "false", oninput: () => listed(0) });
  const image = h("select", { id: "image", onchange: () => listed(0) },
    known.images.map((one) => h("option", { value: one.pattern }, one.name)),
    h("option", { value: "*" }, "all images"));
  image.value = asked.get("image") ?? "";
  const sort = h("select", { id: "sort", onchange: () => listed(0) },
    SORTS.map(([value, name]) => h("option", { value }, name)));
  sort.value = asked.get("sort") ?? "match";
  const only = h("select", { id: "only", onchange: () => listed(0) }, h("option", { value: "" }, "all"),
    Object.entries(MARKS).map(([value, [, name]]) => h("option", { value }, name)));
  only.value = asked.get("only") ?? "";

  async function listed(first) {
    waiting?.abort();
    waiting = new AbortController();
    const words = new URLSearchParams();
    for (const [name, field] of [["q", query], ["image", image], ["sort", sort], ["only", only]]) {
      if (field.value && !(name === "sort" && field.value === "match")) words.set(name, field.value);
    }
    history.replaceState(null, "", `/target/${id}/symbols${words.size ? `?${words}` : ""}`);
    if (first) words.set("first", first);
    try {
      const found = await get(`/target/${id}/symbols.json?${words}`, waiting.signal);
      drawn(found, listed);
    } catch (error) {
      if (error.name === "AbortError") return;
      counted.textContent = "";
      show(rows, refused(error));
    }
  }

  // The functions as a table. Those of the first screen are there at once, the others as soon as these are painted.
  function listOf(all) {
    const shown = functions(id, all.slice(0, SCREEN));
    if (all.length > SCREEN) {
      requestAnimationFrame(() => setTimeout(() => {
        if (shown.isConnected) shown.querySelector("tbody").append(...functions(id, all.slice(SCREEN)).querySelectorAll("tbody tr"));
      }));
    }
    return shown;
  }

  function drawn(found) {
    const last = Math.min(found.found, found.first + found.rows.length);
    counted.textContent = found.found
      ? `${number(found.found)} of ${plural(found.of, "function")} ${found.found === 1 ? "matches" : "match"}`
        + (found.rows.length < found.found ? `; numbers ${number(found.first + 1)} to ${number(last)}:` : ".")
      : `None of ${plural(found.of, "function")} matches.`;
    show(rows,
      found.surveyed || image.value === "*" ? null : analyse(id, image.value, found.survey),
      found.line && found.found ? wholeLine(id, found) : null,
      found.rows.length ? listOf(found.rows) : null,
      h("p", null,
        found.first ? h("button", { onclick: () => listed(Math.max(0, found.first - 200)) }, "Earlier ones") : null,
        last < found.found ? h("button", { onclick: () => listed(last) }, "More") : null),
      command(found.command));
  }

  show(place,
    h("h1", null, `Functions of ${known.title}`),
    h("p", null, h("a", { href: `/target/${id}` }, id === "lab" ? "The lab" : isMachine(id) ? "The machine" : isKernel(id) ? "Its modules" : "Its program and libraries"),
      id.startsWith("pid-") ? [", ", h("a", { href: `/target/${id}/trace` }, "a trace of it"), ", ", h("a", { href: `/target/${id}/d` }, "a D program for it")] : isMachine(id) ? [", ", h("a", { href: `/target/${id}/trace` }, "a trace of it"), ", ", h("a", { href: `/target/${id}/d` }, "a D program for it")] : null,
      ". Search by a part of the name, a glob (pipe_*), an expression (/^pipe/), an address (0x…)",
      isKernel(id) ? "." : " or a line of the source (parse.c:120)."),
    h("div", { class: "fields", role: "search" },
      h("p", { class: "field wide" }, h("label", { for: "q" }, "Function"), query),
      h("p", { class: "field" }, h("label", { for: "image" }, "In"), image),
      h("p", { class: "field" }, h("label", { for: "only" }, "With"), only),
      h("p", { class: "field" }, h("label", { for: "sort" }, "By"), sort)),
    counted, rows);
  await listed(0);
  return () => waiting?.abort();
}

function analyse(id, image, state) {
  const stop = h("button", { hidden: state !== "under way", onclick: () => post("/survey/cancel", {}) }, "Give up");
  const button = h("button", { disabled: state === "under way", onclick: async () => {
    button.disabled = true;
    stop.hidden = false;
    notice("Analysing. That may take a minute; the result is kept for the next time.");
    try {
      await post("/survey", { target: id, image });
      notice("The analysis is done.");
      again();
    } catch (error) {
      notice(trouble(error));
      button.disabled = false;
      stop.hidden = true;
    }
  } }, "Analyse this image");
  return h("p", { class: "hint" }, "Nobody has analysed this image yet, so it is not known which points can be had. ", button, isMachine(id) ? null : stop);
}

function functions(id, rows) {
  const several = new Set(rows.map((row) => row.image)).size > 1;
  return table("Functions", [
    ["Points", "mark", (row) => mark(row)],
    ["Function", "name", (row) => [
      h("a", { href: functionAddress(id, row) }, several ? `${row.image}:${row.shown}` : row.shown),
      row.places.map((place) => [" ", h("a", { href: functionAddress(id, row, place.at), "aria-label": `${place.where} of ${row.shown}` }, place.where)]),
    ]],
    ["Bytes", "number lesser", (row) => number(row.size)],
    ["Blocks", "number lesser", (row) => (row.blocks === null ? "" : number(row.blocks))],
    ["Refused", "why", (row) => why(row)],
    ["Instrument", "acts", (row) => [
      h("button", { onclick: () => add(id, `${row.point}:entry=count`), "aria-label": `Count calls of ${row.shown}` }, "count"),
      h("button", { onclick: () => add(id, `${row.point}:entry=time`), "aria-label": `Time calls of ${row.shown}` }, "time"),
    ]],
  ], rows);
}

// The line as one instrument, at all the places where its code begins.
function wholeLine(id, found) {
  return h("p", { class: "hint" }, "The code of this line begins at the places below. ",
    h("button", { onclick: () => add(id, `${found.line}=count`) }, `Count ${found.line}`));
}

function mark(row) {
  const [sign, words] = MARKS[row.marker];
  return h("span", { class: `mark ${row.marker}` }, h("span", { "aria-hidden": "true" }, `${sign} `), words);
}

function why(row) {
  const reasons = Object.entries(row.reasons).map(([name, count]) => `${name} ${count}`);
  return reasons.length ? `${row.refused} of ${row.points}: ${reasons.join(", ")}` : "";
}

// The address of a function's page; `on`: the address, as text, of an instruction whose block is to be in view.
function functionAddress(id, row, on = "") {
  const words = new URLSearchParams({ at: row.at, name: row.name, ...(on ? { on } : {}) });
  if (row.pattern) words.set("image", row.pattern);
  return `/target/${id}/function?${words}`;
}

// SPDX-License-Identifier: LGPL-2.1-or-later
// The pane below the pages on which points are picked: the chosen instruments, a preview of the plan, and a button to begin.

import { fileId, h, helpAbout, isMachine, lines, plural, show, trouble } from "./dom.js";
import { command, goTo, notice } from "./frame.js";
import { get, post } from "./talk.js";
import { listed as timesOf, timed, timesField } from "./times.js";
import { typedField } from "./typed.js";
import { costOf } from "./costs.js";
import { field as cField, instruments, isC, text as cText } from "./c.js";

let shownFor = null;
const listeners = new Set();

export function chosen(target) {
  try {
    return JSON.parse(sessionStorage.getItem(`chosen ${target}`)) ?? [];
  } catch {
    return [];
  }
}

function keep(target, requests) {
  sessionStorage.setItem(`chosen ${target}`, JSON.stringify(requests));
  draw(target);
  for (const listener of listeners) listener();
}

export function whenChosen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function add(target, request) {
  const requests = chosen(target);
  if (!requests.includes(request)) keep(target, [...requests, request]);
  notice(`${request} is in the list below. Nothing is changed before you begin.`);
}

export function toggle(target, request) {
  const requests = chosen(target);
  if (requests.includes(request)) keep(target, requests.filter((each) => each !== request));
  else add(target, request);
}

export function pane(target) {
  shownFor = target;
  draw(target);
}

function draw(target) {
  const place = document.getElementById("pane");
  const requests = target ? chosen(target) : [];
  place.hidden = !requests.length;
  if (target !== shownFor || !requests.length) return show(place);
  const result = h("div", { class: "plan", role: "status" });
  const line = commandFor(target, requests);
  const kernel = isMachine(target);
  const running = kernel || target.startsWith("pid-");
  const list = h("ul", { class: "chosen" });
  const listed = () => show(list, items(target, requests));
  const shell = command(line);
  const again = () => show(shell.querySelector("pre"), h("span", null, lines(commandFor(target, requests))));
  const live = running ? timesField(target, requests, again) : null;
  listed();
  show(place, h("section", { "aria-label": "Instruments chosen" },
    h("h2", null, plural(requests.length, "instrument"), " chosen"),
    list,
    typedField(target, (text) => add(target, text)),
    running && !kernel ? costOf(requests) : null,
    workloadField(target, again),
    running ? cField(kernel, listed, again) : null,
    live,
    h("p", null,
      h("button", { onclick: () => preview(target, requests, result) }, "Preview the plan"),
      h("button", { class: "main", disabled: !running, onclick: (event) => begin(target, requests, event.target) }, "Begin"),
      h("button", { disabled: !running, onclick: () => stagger(target, requests, result) }, "As an experiment"),
      h("button", { onclick: () => keep(target, []) }, "Clear")),
    running ? null : h("p", null, "The window puts instruments into processes. The command below does it elsewhere."),
    result, shell));
}

// The chosen instruments as a list. Once there are instruments in C, each point can have one of these.
function items(target, requests) {
  const own = isMachine(target) || target.startsWith("pid-") ? instruments() : [];
  const change = (each, instrument) => keep(target, requests.map((one) => (one === each ? `${pointsOf(each)}=${instrument}` : one)));
  return requests.map((each) => {
    const now = each.slice(pointsOf(each).length + 1);
    return h("li", null, h("code", null, each),
      own.length && !each.includes("=@") ? h("select", { "aria-label": `Instrument of ${pointsOf(each)}`, value: now, onchange: (event) => change(each, event.target.value) },
        [...new Set([now, "count", ...own])].map((name) => h("option", { value: name, selected: name === now }, name))) : null,
      h("button", { "aria-label": `Leave out ${each}`, onclick: () => keep(target, requests.filter((one) => one !== each)) }, "×"));
  });
}

function pointsOf(request) {
  return request.slice(0, request.lastIndexOf("="));
}

function commandFor(target, requests) {
  const points = requests.map((each) => `-i '${each}'`).join(" ");
  const before = requests.some(isC) ? `printf %s ${quoted(cText())} > mine.c && ` : "";
  if (timed(target, requests)) return `${before}${experimentCommand(target, requests)}`;
  if (!isMachine(target)) return `${before}gilk run ${target.startsWith("pid-") ? `-p ${target.split("-")[1]} ` : ""}${points}`;
  return `${before}gilk run --on ${target} ${points}${workload(target) ? ` -- sh -c ${quoted(workload(target))}` : ""}`;
}

// The command line that writes the experiment with the instruments' times, and runs it.
function experimentCommand(target, requests) {
  const head = isMachine(target) ? `machine = ${toml(target)}\ntargets = ["kernel"]\n${workload(target) ? `\n[workload]\ncommand = ${toml(workload(target))}\n` : ""}`
    : `targets = ["pid:${target.split("-")[1]}"]\n`;
  const parts = timesOf(target, requests).map((one) => {
    const keys = [...keysOf(one.request), ...(one.start ? [`start = ${one.start}`] : []), ...(one.stop === null ? [] : [`stop = ${one.stop}`])];
    return `\n[[instrument]]\n${keys.join("\n")}\n`;
  });
  return `printf %s ${quoted(head + parts.join(""))} > times.toml && gilk experiment run times.toml`;
}

function keysOf(request) {
  const [functions, strategy] = request.split("=@");
  if (strategy === undefined) return [`points = ${toml(pointsOf(request))}`, `instrument = ${toml(request.slice(pointsOf(request).length + 1))}`];
  const [name, ...instrument] = strategy.split(":");
  return [`functions = ${toml(functions)}`, `strategy = ${toml(name)}`, ...(instrument.length ? [`instrument = ${toml(instrument.join(":"))}`] : [])];
}

function toml(text) {
  return JSON.stringify(text).replaceAll("\x7f", "\\u007f");
}

function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

// The command that runs in the lab during a session; "" of other targets, where the window runs no commands.
export function workload(target) {
  return target !== "lab" ? "" : (sessionStorage.getItem("workload") ?? "").trim();
}

// The field for that command, if there may be one. `changed` is called after each change.
export function workloadField(target, changed) {
  if (target !== "lab") return null;
  const field = h("input", { id: "workload", value: sessionStorage.getItem("workload") ?? "", autocomplete: "off", spellcheck: "false",
    placeholder: "ls -lR /etc | sort | tail -3", oninput: () => {
      sessionStorage.setItem("workload", field.value);
      changed();
    } });
  return h("p", { class: "field wide" }, h("label", { for: "workload" }, "Command that runs in the lab meanwhile"), field);
}

async function preview(target, requests, place) {
  show(place, h("p", null, "Planning …"));
  try {
    const { points, reasons } = await post("/preview", { target, requests });
    const bad = points.filter((each) => each.refused);
    show(place, h("p", null, `${plural(points.length - bad.length, "point")} can be had`, bad.length ? `, ${bad.length} cannot:` : "."),
      h("ul", null, bad.slice(0, 50).map((each) => h("li", null, `${each.point}: `, h("a", { href: helpAbout(each.refused, "refusals") }, each.refused), `: ${reasons[each.refused]}`))),
      h("details", null, h("summary", null, "All points"),
        h("ul", null, points.slice(0, 500).map((each) => h("li", null, `${each.point}: ${each.tactic ?? `refused: ${each.refused}`}`)))));
  } catch (error) {
    show(place, h("p", { role: "alert" }, trouble(error)));
  }
}

async function begin(target, requests, button) {
  button.disabled = true;
  notice("Putting the instruments in …");
  try {
    const asked = timesOf(target, requests).map((one) => (one.start || one.stop !== null ? one : one.request));
    const inC = requests.some(isC);
    const session = isMachine(target) ? await post(inC ? "/session/machine/c" : "/session/machine", { requests: asked, workload: workload(target), ...(inC ? { text: cText() } : {}) })
      : inC ? await post("/session/c", { target, requests: asked, text: cText() })
        : await post("/session", { target, requests: asked });
    notice("The instruments are in.");
    keep(target, []);
    goTo(`/session/${session.number}`);
  } catch (error) {
    notice(trouble(error, "Nothing was put in."));
    button.disabled = false;
  }
}

// Open a new experiment with these instruments, in which each may start and stop at its own time.
async function stagger(target, requests, place) {
  try {
    const { experiment_folders: folders, experiments } = await get("/index.json");
    if (!folders.length) {
      show(place, h("p", null, "The window was given no directory for experiments: gilk web --experiments DIR."));
      return;
    }
    const taken = new Set(experiments.map((one) => `${one.folder}/${one.name}`));
    let [path, number] = ["", 1];
    do path = `${folders[0]}/experiment-${number++}.toml`; while (taken.has(path));
    const words = new URLSearchParams([["for", target], ...requests.map((each) => ["i", each])]);
    if (timed(target, requests)) for (const one of timesOf(target, requests)) words.append("times", `${one.start} ${one.stop ?? ""}`.trim());
    if (workload(target)) words.set("workload", workload(target));
    goTo(`/experiment/${fileId(path)}?${words}`);
  } catch (error) {
    show(place, h("p", { role: "alert" }, trouble(error)));
  }
}

export async function sessionsOf(target) {
  return (await get(`/target/${target}.json`)).sessions;
}

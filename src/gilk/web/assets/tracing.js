// SPDX-License-Identifier: LGPL-2.1-or-later
// The page where a trace of a process, or of the kernel of a machine, is begun: from which event to which, and which functions are
// followed.

import { h, isMachine, show, trouble } from "./dom.js";
import { command, goTo } from "./frame.js";
import { workload, workloadField } from "./pane.js";
import { get, post } from "./talk.js";

const REST = 150; // ms without a key before the command is made anew
const TIMES = "now, or after:2s (from Begin on)";
const EVENTS = "now, or call:FUNCTION, return:FUNCTION:3 (the third return), after:2s (from Begin on)";

export async function tracing(place, id) {
  const first = new URLSearchParams(location.search);
  const kernel = isMachine(id);
  if (kernel && first.has("workload")) sessionStorage.setItem("workload", first.get("workload"));
  const about = await get(`/target/${id}/trace.json`);
  let [waiting, asking] = [0, null];

  const text = (name, usual) => h("input", { id: name, value: first.get(name) ?? usual, autocomplete: "off",
    spellcheck: "false", "aria-describedby": `${name}-hint`, oninput: typed });
  const area = (name) => h("textarea", { id: name, rows: 2, spellcheck: "false", autocomplete: "off",
    "aria-describedby": `${name}-hint`, value: first.getAll(name).join("\n"), oninput: typed });
  const [start, stop] = [text("start", "now"), text("stop", "for:2s")];
  const [scope, skip] = [area("scope"), area("skip")];
  const depth = h("input", { id: "depth", type: "number", min: 0, max: 1000, value: first.get("depth") ?? "0",
    "aria-describedby": "depth-hint", oninput: typed });
  const all = h("input", { id: "all", type: "checkbox", checked: first.get("all") === "1", onchange: typed });
  const same = h("div");
  const wrong = h("div", { role: "alert" });
  const said = h("div", { role: "status", "aria-label": "Problems" });

  function chosen() {
    const globs = (field) => field.value.split("\n").map((line) => line.trim()).filter(Boolean);
    const both = { start: start.value.trim(), stop: stop.value.trim(), scope: globs(scope),
      depth: Math.max(0, Math.trunc(Number(depth.value)) || 0) };
    return kernel ? { ...both, workload: workload(id) } : { ...both, skip: globs(skip), all: all.checked };
  }

  function words() {
    const { start: from, stop: to, ...more } = chosen();
    const query = new URLSearchParams({ start: from, stop: to });
    for (const name of ["scope", "skip"]) more[name]?.forEach((glob) => query.append(name, glob));
    if (more.depth) query.set("depth", more.depth);
    if (more.all) query.set("all", "1");
    if (more.workload) query.set("workload", more.workload);
    return query.toString();
  }

  function typed() {
    clearTimeout(waiting);
    waiting = setTimeout(alike, REST);
    show(wrong);
  }

  // The command that does the same, and what is wrong with an event.
  async function alike() {
    asking?.abort();
    asking = new AbortController();
    const query = words();
    try {
      const found = await get(`/target/${id}/trace.json?${query}`, asking.signal);
      history.replaceState(null, "", `${location.pathname}?${query}`);
      const open = same.firstChild?.open ?? false;
      show(same, command(found.command, found.python));
      same.firstChild.open = open;
      show(said, found.problem ? failed(found.problem) : null);
      begin.disabled = !about.acts || !about.folder || Boolean(found.problem);
    } catch (error) {
      if (error.name !== "AbortError") show(said, failed(error));
    }
  }

  const begin = h("button", { class: "main", disabled: true, onclick: async () => {
    begin.disabled = true;
    show(wrong, h("p", null, "Finding the functions, and making them ready. The first time that may take a minute …"));
    try {
      const session = kernel ? await post("/session/machine/trace", chosen()) : await post("/session/trace", { target: id, ...chosen() });
      goTo(`/session/${session.number}`);
    } catch (error) {
      show(wrong, h("p", null, trouble(error, "Nothing was put in.")));
      begin.disabled = false;
    }
  } }, "Begin");

  show(place,
    h("h1", null, `Trace of ${about.title}`),
    h("p", null, kernel ? "Every call of these functions from one event to another, with its time, whoever makes it. "
      : "Every call from one event to another, with its time. Until the first event the program runs as if nothing were there. ",
      h("a", { href: "/help/cli/trace" }, "What is followed"), "."),
    field("start", "Begin at", start, kernel ? TIMES : EVENTS),
    field("stop", "End at", stop, kernel ? "for:2s (so long after its first event), exit (with the command). “Take out” ends it, too."
      : "for:2s (so long after its first event), return:FUNCTION, exit (with the program). “Take out” ends it, too."),
    field("scope", "Follow only", scope, kernel ? "Functions, one a line: pipe_*, vfs_read. Empty: all of the kernel, which takes a minute to prepare."
      : "Functions, one a line: parse_* of the program, libz*:inflate*, libc.so.6: for all of an image. Empty: all of the program and its libraries."),
    kernel ? null : field("skip", "Do not follow", skip, "Functions, in the same words."),
    field("depth", "Levels of calls", depth, "Calls within calls, so many deep. 0: all."),
    kernel ? workloadField(id, typed)
      : h("p", { class: "check" }, all, h("label", { for: "all" }, "Also what is called so often that following it slows the program down")),
    h("p", { class: "acts" }, begin),
    !about.acts ? h("p", null, "This window only looks; the command below makes the trace.")
      : about.folder ? h("p", null, `The file goes to ${about.folder}.`)
        : h("p", null, "This window was given no directory for traces: start it with gilk web --traces DIR, or use the command below."),
    said, wrong, same);
  alike(); // not waited for: whoever types already keeps the focus
  return () => {
    clearTimeout(waiting);
    asking?.abort();
  };
}

function field(name, label, input, hint) {
  return h("p", { class: "field line" }, h("label", { for: name }, label), input, h("span", { id: `${name}-hint`, class: "hint" }, hint));
}

function failed(error) {
  return h("p", { class: "state missing" }, trouble(error));
}

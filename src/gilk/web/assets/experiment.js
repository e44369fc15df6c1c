// SPDX-License-Identifier: LGPL-2.1-or-later
// An experiment: its text, and its instruments' times as bars that the mouse or keys move. The server makes each change
// in the text, and keeps everything else in it, comments included.

import { bar, picture, secondsAt, seconds, span, STEP } from "./bars.js";
import { h, later, s, show, table, trouble } from "./dom.js";
import { command, goTo, notice } from "./frame.js";
import { get, post } from "./talk.js";
import { sessionRows } from "./rows.js";

const REST = 250; // ms without a key before a text is checked

export async function experiment(place, id) {
  const found = await get(`/experiment/${id}.json${location.search}`);
  const draft = `experiment ${id}`;
  const kept = sessionStorage.getItem(draft);
  let digest = found.digest;
  let values = found.values;
  let changing = Promise.resolve();

  const field = h("textarea", { id: "text", rows: 16, spellcheck: "false", autocomplete: "off", value: kept ?? found.text,
    readonly: !found.acts, oninput: () => { keep(); looked(); } });
  const bars = h("div", { role: "region", "aria-label": "Times" });
  const wrong = h("div", { role: "alert" });
  const said = h("p", { role: "status", id: "stands" });
  const same = h("div");
  const looked = later(look, REST);

  function keep() {
    sessionStorage.setItem(draft, field.value);
    stands();
  }

  function saved() {
    return digest !== "" && field.value === found.text;
  }

  function stands() {
    said.textContent = saved() ? "The file has this text." : digest ? "The file has another text: this one is not saved." : "This file is not there yet: Begin or Save writes it.";
  }

  async function look() {
    const text = field.value;
    try {
      const told = await post(`/experiment/${id}/check.json`, { text });
      if (text === field.value) drawn(told);
    } catch (error) {
      show(wrong, problem(error));
    }
  }

  // Have the server make a change. Changes wait for each other, so that each works on the text that the last one returned.
  function change(one) {
    changing = changing.then(async () => {
      try {
        const told = await post(`/experiment/${id}/change.json`, { text: field.value, change: one });
        field.value = told.text;
        keep();
        drawn(told);
      } catch (error) {
        show(wrong, problem(error));
        if (values) shown();
      }
    });
    return changing;
  }

  function drawn(told) {
    values = told.values ?? values;
    show(wrong, told.problem ? problem(told.problem) : null);
    begin.disabled = !found.acts || Boolean(told.problem);
    show(same, command(told.command, told.python));
    if (told.values) shown();
  }

  function shown() {
    const focused = document.activeElement?.dataset?.of;
    show(bars, chart(values, found.acts ? change : null), rows(values, found.acts ? change : null));
    if (focused) bars.querySelector(`[data-of="${focused}"]`)?.focus({ preventScroll: true });
  }

  async function save() {
    await changing;
    const text = field.value;
    const { digest: now } = await post("/experiment/save", { file: id, text, digest });
    digest = now;
    found.text = text;
    sessionStorage.removeItem(draft);
    stands();
  }

  const keeping = h("button", { disabled: !found.acts, onclick: async () => {
    try {
      await save();
      notice("The file is saved.");
      show(wrong);
    } catch (error) {
      show(wrong, problem(error));
    }
  } }, "Save");
  const begin = h("button", { class: "main", disabled: !found.acts, onclick: async () => {
    begin.disabled = true;
    try {
      if (!saved()) await save();
      notice(values.machine ? "A virtual machine starts for it. That takes some seconds …" : "The points are being found and planned …");
      const session = await post("/session/experiment", { file: id, digest });
      goTo(`/session/${session.number}`);
    } catch (error) {
      show(wrong, problem(error, "Nothing was put in."));
      begin.disabled = false;
    }
  } }, "Begin");

  show(place,
    h("h1", null, `Experiment ${found.name}`),
    h("p", null, found.file, ". ", h("a", { href: "/help/experiments" }, "The format")),
    h("p", { class: "acts" }, begin, keeping), said, wrong, bars,
    found.acts ? adding(change) : null,
    found.acts ? whole(() => values, change) : null,
    h("p", { class: "field" }, h("label", { for: "text" }, "The file")), field,
    found.sessions.length ? h("section", null, h("h2", null, "Its sessions"), sessionRows(found.sessions)) : null,
    same);
  stands();
  if (kept !== null && kept !== found.text) await look();
  else drawn(found);
}

function problem(error, before = "") {
  return h("p", null, trouble(error, before));
}

function stopOf(one, values, whole) {
  return one.stop ?? values.duration ?? whole;
}

function chart(values, change) {
  const whole = span(values);
  const rows = values.instruments.map((one, index) => ({ name: one.name, draw: (y, x) => {
    const made = bar(y, x(one.start), x(stopOf(one, values, whole)), one.stop === null ? "planned open" : "planned");
    if (!change) return made;
    const ends = ["start", "stop"].map((key) => handle(key, one, index, y, x, values, whole, change));
    moved(made, whole, (by, done) => {
      const start = rounded(Math.max(0, one.start + by));
      const stop = one.stop === null ? null : rounded(Math.min(whole, one.stop + start - one.start));
      made.setAttribute("x", x(start));
      made.setAttribute("width", x(stop ?? stopOf(one, values, whole)) - x(start));
      if (done) put(index, { start, stop }, one, change);
    });
    return [made, ends];
  } }));
  if (values.workload) {
    rows.unshift({ name: `runs: ${values.workload}`, draw: (y, x) => bar(y, x(0), x(values.duration ?? whole), "workload") });
  }
  return h("div", { class: "graph" }, picture("Times of the instruments", rows, whole));
}

function handle(key, one, index, y, x, values, whole, change) {
  const now = key === "start" ? one.start : stopOf(one, values, whole);
  const least = key === "start" ? 0 : one.start + STEP;
  const most = key === "start" ? Math.max(0, stopOf(one, values, whole) - STEP) : whole;
  const made = s("rect", { class: "handle", x: x(now) - 5, y: y + 2, width: 10, height: 24, rx: 2, tabindex: 0, role: "slider",
    "data-of": `${key} ${index}`, "aria-label": `${key === "start" ? "Start" : "Stop"} of ${one.name}`,
    "aria-valuemin": least, "aria-valuemax": most, "aria-valuenow": now,
    "aria-valuetext": key === "stop" && one.stop === null ? "at the end" : seconds(now) });
  const kept = (value) => rounded(Math.min(most, Math.max(least, value)));
  made.addEventListener("keydown", (event) => {
    const far = event.shiftKey ? 10 : 1;
    const next = { ArrowLeft: now - STEP * far, ArrowRight: now + STEP * far, Home: least, End: key === "stop" ? null : most }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    put(index, { [key]: next === null ? null : kept(next) }, one, change);
  });
  moved(made, whole, (by, done) => {
    const value = kept(now + by);
    made.setAttribute("x", x(value) - 5);
    if (done) put(index, { [key]: value }, one, change);
  });
  return made;
}

// Let the pointer drag an element. `act` gets the seconds that the pointer has moved since it was pressed, and whether it
// was released.
function moved(element, whole, act) {
  let from = null;
  const second = (event) => {
    const box = element.ownerSVGElement.getBoundingClientRect();
    return secondsAt(event.clientX - box.left, box.width, whole);
  };
  element.addEventListener("pointerdown", (event) => {
    from = second(event);
    element.setPointerCapture(event.pointerId);
  });
  element.addEventListener("pointermove", (event) => { if (from !== null) act(second(event) - from, false); });
  element.addEventListener("pointerup", (event) => {
    if (from === null) return;
    const by = second(event) - from;
    from = null;
    if (Math.abs(by) > 1e-9) act(by, true);
  });
}

function rounded(value) {
  return Number((Math.round(value / (STEP / 2)) * (STEP / 2)).toFixed(3));
}

function put(index, now, one, change) {
  for (const [key, value] of Object.entries(now)) {
    if (value === one[key]) continue;
    change({ table: `instrument[${index + 1}]`, key, value: key === "start" && value === 0 ? null : value });
  }
}

// The times of the instruments as a table, with fields for numbers if they may be changed.
function rows(values, change) {
  const time = (key, index, one) => (change ? h("input", { type: "number", min: 0, step: "any", size: 6, "data-of": `number ${key} ${index}`,
    "aria-label": `${key === "start" ? "Start" : "Stop"} of ${one.name} in seconds`, value: one[key] ?? "", placeholder: key === "stop" ? "the end" : "0",
    onchange: (event) => put(index, { [key]: event.target.value === "" ? null : Number(event.target.value) }, one, change) })
    : one[key] === null ? "the end" : seconds(one[key]));
  return h("div", { class: "wide" }, table("Instruments of the file", [
    ["Instrument", "name", ([one]) => one.name],
    ["In", "word", ([one]) => one.targets.join(", ") || "all"],
    ["Start, s", "", ([one, index]) => time("start", index, one)],
    ["Stop, s", "", ([one, index]) => time("stop", index, one)],
    ...(change ? [["Change", "acts", ([one, index]) => h("button", { "aria-label": `Leave out ${one.name}`,
      onclick: () => change({ remove: index + 1 }) }, "Leave out")]] : []),
  ], values.instruments.map((one, index) => [one, index])));
}

function adding(change) {
  const request = h("input", { id: "add", autocomplete: "off", spellcheck: "false", required: true, placeholder: "libc:read:entry=time" });
  const start = h("input", { id: "from", type: "number", min: 0, step: "any", value: "0" });
  return h("form", { class: "fields", onsubmit: async (event) => {
    event.preventDefault();
    await change({ add: request.value, start: Number(start.value) });
    request.value = "";
  } },
  h("p", { class: "field wide" }, h("label", { for: "add" }, "One more instrument"), request),
  h("p", { class: "field" }, h("label", { for: "from" }, "from second"), start),
  h("p", { class: "field" }, h("button", null, "Add")));
}

const WHOLE = [["", "duration", "It lasts, s", "number"], ["workload", "command", "Workload", "text"], ["", "output", "Samples to", "text"],
  ["", "repetitions", "Repetitions", "number"]];

function whole(values, change) {
  const given = { duration: "duration", command: "workload", output: "output", repetitions: "repetitions" };
  return h("div", { class: "fields" }, WHOLE.map(([of, key, label, type]) => {
    const field = h("input", { id: key, type, min: type === "number" ? 0 : null, step: type === "number" ? "any" : null, autocomplete: "off",
      spellcheck: "false", value: values()?.[given[key]] ?? "", onchange: () => {
        const value = field.value === "" ? null : type === "number" ? Number(field.value) : field.value;
        change({ table: of, key, value });
      } });
    return h("p", { class: `field${key === "command" ? " wide" : ""}` }, h("label", { for: key }, label), field);
  }));
}

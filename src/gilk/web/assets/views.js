// SPDX-License-Identifier: LGPL-2.1-or-later
// The other pages of a trace: its calls as a tree and as a flame graph, calls that are unlike others, and questions in SQL.

import { capital, duration, h, lines, number, plural, roomWide, s, show, table } from "./dom.js";
import { command, goTo, refused } from "./frame.js";
import { get } from "./talk.js";
import { palette } from "./tiles.js";

const VIEWS = [["timeline", "Time line"], ["tree", "Tree"], ["flame", "Flame graph"], ["anomalies", "Anomalies"], ["plot", "Plots"], ["sql", "SQL"]];
const [ROW, LETTER] = [20, 6.7]; // pixels
const INDENT = 1.1; // rem for each level of calls
const DEEPEST = 30; // levels of calls
const NAMED = 6; // functions that are not followed

// Links to all pages of a file.
export function views(id, here) {
  return h("nav", { class: "views", "aria-label": "Views of this file" }, VIEWS.map(([view, name]) =>
    h("a", { href: `/file/${id}/${view}`, "aria-current": view === here ? "page" : null }, name)));
}

// Show the heading and `words` while the answer is awaited, and return the answer. Leaving the page cancels the request.
async function waited(place, id, view, words, heading, query) {
  const ending = new AbortController();
  addEventListener("gilk-leave", () => ending.abort(), { once: true });
  show(place, h("h1", null, heading), views(id, view), h("p", { role: "status" }, words));
  const found = await get(`/file/${id}/${view}.json?${query}`, ending.signal);
  found.head = [h("h1", null, found.name), views(id, view)];
  return found;
}

function inTimeline(id, words, ...name) {
  return h("a", { href: `/file/${id}/timeline?${new URLSearchParams(words)}` }, ...name);
}

function called(one) {
  return `${one.function}${one.lane === "kernel" ? " (kernel)" : ""}`;
}

function wide(caption, columns, rows) {
  return h("div", { class: columns.length > 6 ? "wide broad" : columns.length < 4 ? "wide slim" : "wide", tabindex: 0, role: "region", "aria-label": `Table: ${caption}` }, table(caption, columns, rows));
}

function cut(found) {
  return found.cut ? h("p", { class: "mark none" }, `${plural(found.cut, "call")} lie so far in that they are counted only in those above.`) : null;
}

// The tree.

export async function tree(place, id) {
  const found = await waited(place, id, "tree", "Counting the calls …", "Calls as a tree", "");
  const open = new Set((new URLSearchParams(location.search).get("open") ?? "").split(",").filter((each) => /^\d+$/.test(each)).map(Number));
  const remember = () => history.replaceState(null, "", `${location.pathname}${open.size ? `?open=${[...open].join(",")}` : ""}`);
  const threads = found.threads.filter((each) => each.calls.length);
  const trees = threads.map((each) => branches(id, each, open, remember));
  show(place, found.head, cut(found),
    h("p", null, "Calls with the same callers are one line; those that took longest come first. A line opens to what it called."),
    found.lacking ? h("p", { class: "hint" }, lines(capital(found.lacking.trim()))) : null,
    threads.length ? threads.map((each, at) => h("section", null, h("h2", null, each.thread), trees[at])) : h("p", null, "There are no calls."),
    h("p", { class: "hint" }, "Keys: ↑ ↓ move, → opens, ← closes."), command(found.command, found.python));
  await Promise.all(trees.map((each) => each.opened()));
}

// The functions that a line's function calls and that are not followed: their calls are not in the tree.
function unfollowed(one, indent) {
  if (!one.not_followed) return null;
  const more = one.not_followed.length - NAMED;
  const note = h("div", { class: "hint lacking" }, `not followed: ${one.not_followed.slice(0, NAMED).join(", ")}${more > 0 ? ` and ${number(more)} more` : ""}`);
  note.style.marginLeft = `calc(${indent} + 2rem)`;
  return note;
}

function branches(id, thread, open, remember) {
  const body = h("tbody");
  const place = h("div", { class: "wide", role: "region", tabindex: 0, "aria-label": `Calls of ${thread.thread}` },
    h("table", { class: "tree" }, h("caption", { class: "unseen" }, `Calls of ${thread.thread}`),
      h("thead", null, h("tr", null, [["Total", "number"], ["In itself", "number lesser"], ["Calls", "number"], ["Function", ""], ["", "lesser"]].map(([name, kind]) =>
        h("th", { scope: "col", class: kind }, name || h("span", { class: "unseen" }, "Elsewhere"))))), body));
  const buttons = () => [...body.querySelectorAll("button")];

  function rows(found, depth) {
    const made = found.calls.map((one) => row(one, depth));
    if (found.left_out) made.push(h("tr", { "data-depth": depth }, h("td", { colspan: 5 }, `and ${plural(found.left_out, "line")} more, which took less`)));
    return made;
  }

  function row(one, depth) {
    const name = called(one);
    const step = Math.min(depth, DEEPEST);
    const button = h("button", { class: "branch", "data-node": one.node, "aria-expanded": one.children ? "false" : null, "data-in": step,
      onclick: () => toggle(button), onkeydown: (event) => key(event, button) },
    h("span", { class: "twist", "aria-hidden": "true" }, one.children ? "▸" : "·"), " ", name);
    button.style.marginLeft = `${step * (innerWidth < 600 ? INDENT / 2 : INDENT)}rem`;
    return h("tr", { "data-depth": depth },
      h("td", { class: "number" }, duration(one.total)), h("td", { class: "number lesser" }, duration(one.self)), h("td", { class: "number" }, number(one.calls)),
      h("td", { class: "name" }, button, h("span", { class: "lesser hint" }, ` ${one.image}${one.open ? `, ${plural(one.open, "call")} still under way` : ""}`), unfollowed(one, button.style.marginLeft)),
      h("td", { class: "lesser" }, inTimeline(id, { q: one.function.slice(0, 200) }, "find", h("span", { class: "unseen" }, ` ${name} in the time line`))));
  }

  async function toggle(button) {
    const state = button.getAttribute("aria-expanded");
    if (state === "false") await opens(button);
    else if (state === "true") closes(button);
    remember();
  }

  async function opens(button) {
    const node = Number(button.dataset.node), line = button.closest("tr");
    button.setAttribute("aria-expanded", "true");
    button.querySelector(".twist").textContent = "▾";
    open.add(node);
    try {
      const found = await get(`/file/${id}/tree.json?node=${node}`);
      if (button.getAttribute("aria-expanded") === "true") line.after(...rows(found, Number(line.dataset.depth) + 1));
    } catch (error) {
      line.after(h("tr", { "data-depth": Number(line.dataset.depth) + 1 }, h("td", { colspan: 5 }, refused(error))));
    }
  }

  function closes(button) {
    const line = button.closest("tr");
    button.setAttribute("aria-expanded", "false");
    button.querySelector(".twist").textContent = "▸";
    open.delete(Number(button.dataset.node));
    while (line.nextSibling && Number(line.nextSibling.dataset.depth) > Number(line.dataset.depth)) {
      const inner = line.nextSibling.querySelector("button");
      if (inner) open.delete(Number(inner.dataset.node));
      line.nextSibling.remove();
    }
  }

  function key(event, button) {
    const all = buttons(), at = all.indexOf(button), state = button.getAttribute("aria-expanded");
    const to = { ArrowDown: all[at + 1], ArrowUp: all[at - 1], Home: all[0], End: all.at(-1) }[event.key];
    if (to) to.focus();
    else if (event.key === "ArrowRight" && state === "false") toggle(button);
    else if (event.key === "ArrowLeft" && state === "true") toggle(button);
    else if (event.key === "ArrowLeft") all.slice(0, at).reverse().find((each) => Number(each.dataset.in) < Number(button.dataset.in))?.focus();
    else return;
    event.preventDefault();
  }

  place.opened = async () => {
    const wanted = new Set(open);
    for (let more = true; more;) {
      const next = buttons().find((each) => each.getAttribute("aria-expanded") === "false" && wanted.has(Number(each.dataset.node)));
      more = Boolean(next);
      if (next) await opens(next);
    }
  };
  body.append(...rows(thread, 0));
  return place;
}

// The flame graph.

export async function traceFlame(place, id) {
  const node = new URLSearchParams(location.search).get("node") ?? "-1";
  const found = await waited(place, id, "flame", "Counting the calls …", "Calls as a flame graph", new URLSearchParams({ node }));
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const colours = () => palette(found.bars.map((one) => [one.function, one.image, one.lane === "kernel"]), dark.matches).map((each) => `rgb(${each.join(" ")})`);
  const share = (one) => `${((100 * one.total) / Math.max(1, found.total)).toFixed(1)} %`;
  const told = (one) => `${called(one)} of ${one.image}: ${duration(one.total)} (${share(one)}), ${duration(one.self)} in itself, ${plural(one.calls, "call")}`;
  const height = (Math.max(0, ...found.bars.map((one) => one.depth)) + 1) * ROW;
  const y = (one) => height - (one.depth + 1) * ROW;
  const words = h("p", { id: "bar", role: "status" }, found.bars.length ? "Point at a bar, or move with the arrow keys; a click or Enter shows it alone." : "There are no calls.");
  let chosen = -1;
  const whole = roomWide();
  const shapes = found.bars.map((one, at) => {
    const width = one.width * whole;
    return s("g", { class: "frame", onpointerenter: () => choose(at), onclick: () => alone(one) },
      s("rect", { x: one.x * whole, y: y(one), width: Math.max(0.5, width - 1), height: ROW - 1 }),
      width > 4 * LETTER ? s("text", { x: one.x * whole + 3, y: y(one) + 14 }, fitting(called(one), width)) : null);
  });
  const picture = h("div", { id: "flame", class: "heatmap flame", tabindex: 0, role: "application", "aria-label": "Flame graph: callers below, as wide as the time they took",
    "aria-describedby": "bar", onkeydown: key }, s("svg", { width: whole, height, "aria-hidden": "true" }, shapes));

  const paint = () => colours().forEach((colour, at) => shapes[at].querySelector("rect").setAttribute("fill", colour));
  paint();
  dark.addEventListener("change", paint);

  function choose(at) {
    if (chosen >= 0) shapes[chosen].classList.remove("chosen");
    chosen = at;
    shapes[at].classList.add("chosen");
    words.textContent = told(found.bars[at]);
  }

  function alone(one) {
    goTo(`/file/${id}/flame?node=${one.node}`);
  }

  function key(event) {
    const { bars } = found;
    if (!bars.length) return;
    const here = bars[Math.max(0, chosen)];
    const inside = (one) => one.x >= here.x - 1e-9 && one.x < here.x + here.width - 1e-9;
    const holds = (one) => here.x >= one.x - 1e-9 && here.x < one.x + one.width - 1e-9;
    const first = (fits) => bars.reduce((best, one, at) => (fits(one) && (best < 0 || one.width > bars[best].width) ? at : best), -1);
    const beside = bars.map((one, at) => [one, at]).filter(([one]) => one.depth === here.depth).sort(([one], [other]) => one.x - other.x).map(([, at]) => at);
    const place = beside.indexOf(Math.max(0, chosen));
    const to = chosen < 0 ? 0 : {
      ArrowUp: first((one) => one.depth === here.depth + 1 && inside(one)), ArrowDown: first((one) => one.depth === here.depth - 1 && holds(one)),
      ArrowRight: beside[place + 1] ?? -1, ArrowLeft: beside[place - 1] ?? -1, Home: 0 }[event.key];
    if (event.key.startsWith("Arrow") || event.key === "Home") { if (to >= 0) choose(to); }
    else if (event.key === "Enter" && chosen >= 0) alone(here);
    else if (event.key === "Escape" && found.path.length) goTo(`/file/${id}/flame${found.path.length > 1 ? `?node=${found.path.at(-2).node}` : ""}`);
    else return;
    event.preventDefault();
  }

  const most = [...found.bars].sort((one, other) => other.self - one.self).slice(0, 25);
  show(place, found.head, cut(found),
    h("p", null, `${duration(found.total)} in ${plural(found.contexts, "context")} of all threads; callers below, as wide as the time they took together.`),
    found.path.length ? h("nav", { class: "crumbs", "aria-label": "Callers" }, h("a", { href: `/file/${id}/flame` }, "all"),
      found.path.map((one) => [" › ", h("a", { href: `/file/${id}/flame?node=${one.node}`, "aria-current": String(one.node) === node ? "page" : null }, called(one))])) : null,
    words, picture, found.left_out ? h("p", { class: "hint" }, `${plural(found.left_out, "bar")} more, narrower or further in; a click on the one below shows them.`) : null,
    most.length ? h("section", null, h("h2", null, "Most time in itself, in one context"), wide("Most time in itself", [
      ["Function", "name", (one) => inTimeline(id, { q: one.function.slice(0, 200) }, called(one))], ["In itself", "number", (one) => duration(one.self)],
      ["Total", "number", (one) => duration(one.total)], ["Of all", "number", share], ["Calls", "number", (one) => number(one.calls)]], most)) : null,
    h("p", { class: "hint" }, "Keys: ↑ to what it called, ↓ to its caller, ← → beside, Enter shows it alone, Esc its caller."), command(found.command));
  return () => dark.removeEventListener("change", paint);
}

function fitting(name, width) {
  const room = Math.floor((width - 6) / LETTER);
  return name.length <= room ? name : `${name.slice(0, Math.max(1, room - 1))}…`;
}

// Calls that are unlike others.

const SORTS = { unfinished: "did not return", slow: "slow", left: "left without a return", calls: "called otherwise" };
const UNITS = { ns: 1, us: 1e3, µs: 1e3, ms: 1e6, s: 1e9 };

export async function anomalies(place, id) {
  const least = new URLSearchParams(location.search).get("least") ?? "1000";
  const found = await waited(place, id, "anomalies", "Looking at every call …", "Calls unlike others", new URLSearchParams({ least }));
  const field = h("input", { id: "least", value: inUnits(found.least), autocomplete: "off" });
  const wrong = h("p", { role: "alert" });
  show(place, found.head,
    h("form", { class: "fields", onsubmit: (event) => {
      event.preventDefault();
      const ns = fromUnits(field.value);
      if (ns === null) wrong.textContent = "A time is a number and ns, us, ms or s: 10us, 1.5 ms.";
      else goTo(`/file/${id}/anomalies?least=${ns}`);
    } }, h("p", { class: "field" }, h("label", { for: "least" }, "A slow call takes longer than usual by at least"), field, h("button", null, "Look"))), wrong,
    h("p", { role: "status" }, `${plural(found.calls, "call")}, `, found.found ? `${number(found.found)} of which stand out` : "none of which stands out",
      found.anomalies.length < found.found ? `; the first ${found.anomalies.length}:` : "."),
    found.anomalies.length ? wide("Calls unlike others", [
      ["Call", "name", (one) => inTimeline(id, { call: one.row }, called(one))], ["What", "", (one) => SORTS[one.kind] ?? one.kind],
      ["Took", "number", (one) => duration(one.duration_ns)], ["Longer by", "number", (one) => (one.excess_ns ? duration(one.excess_ns) : "")],
      ["Why", "", (one) => one.why], ["Thread", "", (one) => `${one.thread || "thread"} ${one.tid}`], ["At", "number", (one) => duration(one.at_ns)],
      ["Others found", "number", (one) => (one.more ? number(one.more) : "")]], found.anomalies) : null,
    h("p", { class: "hint" }, "Each is compared with the other calls that have the same callers. A link leads to the call in the time line."),
    h("section", null, h("h2", null, "As gilk anomalies prints it"), h("pre", { tabindex: 0, role: "region", "aria-label": "Text" }, lines(found.text))),
    command(found.command));
}

function inUnits(ns) {
  const [unit, size] = [["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1]].find(([, each]) => ns >= each && ns % each === 0) ?? ["ns", 1];
  return `${ns / size}${unit}`;
}

function fromUnits(text) {
  const parts = /^\s*(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s)\s*$/.exec(text);
  return parts ? Math.round(Number(parts[1]) * UNITS[parts[2]]) : null;
}

// Questions.

const EXAMPLES = [
  ["Slowest calls", "select function, duration, start, thread from calls order by duration desc limit 20"],
  ["By function", "select function, count(*) as calls, sum(duration) as total, max(duration) as longest\nfrom calls group by function order by total desc limit 50"],
  ["By thread", "select thread, tid, count(*) as records from samples group by all order by records desc"],
];

export async function sql(place, id) {
  const q = new URLSearchParams(location.search).get("q") ?? "";
  const text = h("textarea", { id: "q", rows: 5, spellcheck: "false", autocomplete: "off", value: q,
    onkeydown: (event) => { if (event.key === "Enter" && event.ctrlKey) { event.preventDefault(); asks(); } } });
  const asks = () => goTo(`/file/${id}/sql?${new URLSearchParams({ q: text.value })}`);
  const form = h("form", { onsubmit: (event) => { event.preventDefault(); asks(); } },
    h("p", null, h("label", { for: "q" }, "A question in SQL")), text,
    h("p", { class: "acts" }, h("button", { class: "main" }, "Ask"), " for example: ",
      EXAMPLES.map(([name, words]) => h("button", { type: "button", onclick: () => { text.value = words; text.focus(); } }, name))));
  let found;
  try {
    found = await waited(place, id, "sql", "Asking …", "Questions in SQL", new URLSearchParams({ q }));
  } catch (error) {
    if (error.name === "AbortError") throw error;
    show(place, h("h1", null, "Questions in SQL"), views(id, "sql"), form, refused(error));
    return;
  }
  show(place, found.head, form,
    q ? h("section", { "aria-label": "Answer" }, h("p", { role: "status" }, plural(found.rows.length, "row"), found.more ? `; there are more, of which the page has no room: gilk query prints all` : ""),
      found.rows.length ? wide("Answer", found.columns.map((name, at) => [name, typeof found.rows[0][at] === "number" ? "number" : "", (row) => (row[at] === null ? "" : String(row[at]))]),
        found.rows) : null) : null,
    h("section", null, h("h2", null, "Tables"), found.tables.map((one) =>
      h("p", null, h("b", null, one.name), `${one.rows === null ? "" : ` (${plural(one.rows, "row")})`}: ${one.columns.join(", ")}`))),
    h("p", { class: "hint" }, "Times are in ns. DuckDB answers; it reads this file alone, changes nothing, and is given a minute. Ctrl-Enter asks."),
    command(found.command));
}

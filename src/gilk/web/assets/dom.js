// SPDX-License-Identifier: LGPL-2.1-or-later
// Functions that make elements. Everything that comes from a target stays text: no function here turns text into markup.

const SVG = "http://www.w3.org/2000/svg";
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
const LONGEST = 2000;

// The text, cut if it is very long, with control characters and those that change the direction of writing as escapes.
export function plain(text) {
  const short = String(text);
  const cut = short.length > LONGEST ? short.slice(0, LONGEST) + "…" : short;
  return cut.replace(HIDDEN, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

// The text as lines with <br> between them, for programs and their output. The style decides whether leading blanks are kept.
export function lines(text) {
  return text.split("\n").flatMap((line, at) => [...(at ? [h("br")] : []), line.replaceAll("\t", "    ")]);
}

function fill(element, facts, children) {
  for (const [name, value] of Object.entries(facts ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else if (name === "checked") element.checked = value;
    else element.setAttribute(name, value === true ? "" : plain(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(plain(child)));
  }
  return element;
}

export function h(name, facts, ...children) {
  return fill(document.createElement(name), facts, children);
}

export function s(name, facts, ...children) {
  return fill(document.createElementNS(SVG, name), facts, children);
}

// The pixels that the page has beside its margins and a scroll bar, for pictures that fill it.
export function roomWide() {
  return Math.max(280, (document.querySelector("main")?.clientWidth ?? 0) - 56);
}

export function show(place, ...children) {
  place.replaceChildren(...children.flat(Infinity).filter((child) => child instanceof Node));
}

// Like `show`, but what is alike stays, and so do the rows of tables, with the focus and what is selected there.
export function patch(place, ...children) {
  const made = children.flat(Infinity).filter((child) => child instanceof Node);
  for (const [at, child] of made.entries()) {
    const old = place.childNodes[at];
    if (!old) place.append(child);
    else if (!stays(old, child)) old.replaceWith(child);
  }
  while (place.childNodes.length > made.length) place.lastChild.remove();
}

// Whether an element can stay in place of a new one; a table with the same heads is given the new rows.
function stays(old, made) {
  if (old.isEqualNode(made)) return true;
  if (old.tagName !== "TABLE" || made.tagName !== "TABLE" || !old.tHead.isEqualNode(made.tHead)) return false;
  old.caption.textContent = made.caption.textContent;
  patchRows(old.tBodies[0], [...made.tBodies[0].rows]);
  return true;
}

// Rows with the same key stay, and of these the cells that are alike. Others are put around them: a row that is moved loses the focus.
function patchRows(body, made) {
  const old = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  const rows = made.map((row) => old.get(row.dataset.key) ?? row);
  for (const row of old.values()) if (!rows.includes(row)) row.remove();
  let next = body.firstChild;
  for (const [at, row] of rows.entries()) {
    if (row === next) next = next.nextSibling;
    else body.insertBefore(row, next);
    if (row !== made[at]) patchCells(row, made[at]);
  }
}

function patchCells(row, made) {
  for (const [at, cell] of [...made.cells].entries()) {
    const old = row.cells[at];
    if (old.isEqualNode(cell)) continue;
    const had = old.contains(document.activeElement);
    old.replaceWith(cell);
    if (had) (cell.querySelector("a, button") ?? row.querySelector("a, button"))?.focus();
  }
}

export function number(value) {
  return value.toLocaleString("en-US").replaceAll(",", "\u202f");
}

// A number with three figures and a unit, such as 1.23 M; the exact number belongs in the title.
export function short(value) {
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (value >= size) return `${(value / size).toPrecision(3)} ${unit}`;
  }
  return String(Math.round(value));
}

export function duration(ns) {
  for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
    if (ns >= size) return `${(ns / size).toPrecision(3)} ${unit}`;
  }
  return `${ns} ns`;
}

// A time as text, with enough digits to differ from a time `apart` ns away.
export function moment(ns, apart) {
  const [size, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]].find(([each]) => ns >= each) ?? [1, "ns"];
  return `${(ns / size).toFixed(Math.max(0, Math.min(9, Math.ceil(Math.log10(size / apart) - 1e-9))))} ${unit}`;
}

// The first and the last time below a picture from `left` to `right`; one text where there is no room for two.
export function times(first, last, left, right, y) {
  if (right - left < 100) return s("text", { x: left, y }, `${first} s to ${last} s`);
  return [s("text", { x: left, y }, `${first} s`), s("text", { x: right, y, "text-anchor": "end" }, `${last} s`)];
}

// A time in seconds since 1970 as one of the day, with the date if that is another day.
export function clock(seconds) {
  const then = new Date(1000 * seconds);
  const day = then.toDateString() === new Date().toDateString() ? "" : `${then.toISOString().slice(0, 10)} `;
  return `${day}${then.toLocaleTimeString("en-GB")}`;
}

// A sentence, or a title, that begins with a capital.
export function capital(text) {
  return text[0].toUpperCase() + text.slice(1);
}

// The address of what the documentation says about a slug, a tag or a reason: the heading, or the row of a table, on that page.
export function helpAbout(name, page = "errors") {
  return `/help/${page}#${name.toLowerCase()}`;
}

// An error in a sentence or two, for a place of its own: what it is about, its slug, which leads to its paragraph, and its hint.
export function trouble(error, before = "") {
  const slug = error.slug ? [" (", h("a", { href: helpAbout(error.slug) }, error.slug), ")"] : [];
  return [before ? `${before} ` : "", error.message, ...slug, error.hint ? `. ${error.hint}` : ""];
}

// Whether a target is the kernel of a machine, which is instrumented there.
export function isMachine(id) {
  return id === "lab" || id === "here" || id.startsWith("ssh:");
}

// The part of an address that stands for a file.
export function fileId(path) {
  const bytes = new TextEncoder().encode(path);
  return `file-${btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`;
}

// A function that calls `act` once, `wait` ms after its own last call.
export function later(act, wait) {
  let waiting = 0;
  return () => {
    clearTimeout(waiting);
    waiting = setTimeout(act, wait);
  };
}

export function plural(count, noun) {
  return `${number(count)} ${count === 1 ? noun : noun + (noun.endsWith("s") ? "es" : "s")}`;
}

// A table. The columns are [heading, class, (row) => child]. `key` names a row, for `patch`.
export function table(caption, columns, rows, key = () => null) {
  return h("table", null,
    h("caption", { class: "unseen" }, caption),
    h("thead", null, h("tr", null, columns.map(([heading, kind]) => h("th", { class: kind, scope: "col" }, heading)))),
    h("tbody", null, rows.map((row) =>
      h("tr", { "data-key": key(row) }, columns.map(([, kind, cell]) => h("td", { class: kind }, cell(row)))))));
}

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

const shownIn = new WeakMap();

// Show in `place` what `make` makes of the facts, if they have changed. Elements that are the same but for their text and
// attributes stay, and with them the focus, selected text, scroll positions, and what a reader has opened. So do their
// listeners, which therefore must not know the facts.
export function renew(place, facts, make) {
  const text = JSON.stringify(facts ?? null);
  if (shownIn.get(place) === text) return;
  shownIn.set(place, text);
  patch(place, make(facts));
}

// Show in `place` these new children in the same way, whether or not facts have changed.
export function patch(place, ...children) {
  fit(place, children.flat(Infinity).filter((child) => child instanceof Node));
}

// Make the nodes in `place` like these, which are new.
function fit(place, made) {
  const there = new Map();
  for (const node of place.childNodes) there.set(nameOf(node), [...(there.get(nameOf(node)) ?? []), node]);
  const wanted = made.map((node) => {
    const same = there.get(nameOf(node))?.shift();
    if (same) become(same, node);
    return same ?? node;
  });
  for (const node of [...there.values()].flat()) node.remove();
  arrange(place, wanted);
}

// What tells a node from its neighbours: a name of its own, the heading of a section, the first cell of a row.
function nameOf(node) {
  const headed = ["TR", "SECTION"].includes(node.nodeName) ? node.firstElementChild?.textContent : node.ariaLabel;
  return `${node.nodeName} ${node.dataset?.key ?? node.dataset?.of ?? headed ?? ""}`;
}

function become(node, made) {
  if (node.nodeName === "PRE") grow(node, made);
  else if (node instanceof Text) retell(node, made.data);
  else fit(node, [...made.childNodes]);
  const names = new Set([...(node.attributes ?? []), ...(made.attributes ?? [])].map((each) => each.name));
  names.delete("open"); // it is the reader's
  for (const name of names) {
    const value = made.getAttribute(name);
    if (value === null) node.removeAttribute(name);
    else if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
}

// Change a text where it differs. What is selected stays so, with its new letters.
function retell(node, text) {
  const old = node.data;
  if (old === text) return;
  const most = Math.min(old.length, text.length);
  let [same, end] = [0, 0];
  while (same < most && old[same] === text[same]) same += 1;
  while (end < most - same && old.at(-1 - end) === text.at(-1 - end)) end += 1;
  node.insertData(same, text.slice(same, text.length - end));
  node.deleteData(text.length - end, old.length - end - same);
}

// Put nodes in order. Those that a reader has selected something in, or is at, would lose that: then they stay in their order.
function arrange(place, wanted) {
  const old = [...place.childNodes];
  const isSorted = wanted.filter((node) => node.parentNode === place).every((node, at) => node === old[at]);
  const held = !isSorted && isHeld(place);
  let at = place.firstChild;
  for (const each of wanted) {
    const node = held && each.parentNode === place ? old.shift() : each;
    if (node === at) at = at.nextSibling;
    else place.insertBefore(node, at);
  }
}

function isHeld(place) {
  const root = place.getRootNode(); // of the page, or of the notebook's widget
  const chosen = (root.getSelection ? root : document).getSelection();
  return place.contains(root.activeElement) || (chosen.rangeCount > 0 && !chosen.isCollapsed && chosen.getRangeAt(0).intersectsNode(place));
}

// Make a text of lines another one, of which the beginning may be missing, and which may be longer. A reader at its end stays
// there; one who has scrolled back goes on to see the same lines.
function grow(place, made) {
  const [old, text] = [place, made].map((each) => [...each.childNodes].map((node) => node.data ?? "\n").join(""));
  if (old === text) return;
  let cut = 0;
  while (!text.startsWith(old.slice(cut))) cut += 1;
  const isAtEnd = place.scrollTop + place.clientHeight >= place.scrollHeight - 2;
  const [top, high] = [place.scrollTop, place.scrollHeight];
  drop(place, cut);
  const less = high - place.scrollHeight;
  const [first, ...more] = text.slice(old.length - cut).split("\n");
  if (place.lastChild instanceof Text) place.lastChild.appendData(first);
  else place.append(first);
  for (const line of more) place.append(h("br"), line);
  place.scrollTop = isAtEnd ? place.scrollHeight : top - less;
}

// Remove the first letters of a text of lines.
function drop(place, letters) {
  let left = letters;
  while (left && place.firstChild) {
    const node = place.firstChild;
    const length = node.data?.length ?? 1;
    if (length <= left) node.remove();
    else node.deleteData(0, left);
    left -= Math.min(left, length);
  }
}

export function number(value) {
  return value.toLocaleString("en-US").replaceAll(",", "\u202f");
}

// How many records were dropped, of all that there were: those that were kept are `records`, undefined or null if that is not
// known. Drops are loud.
export function dropped(drops, records) {
  const share = records === undefined || records === null ? "" : ` (${percentOf(drops / (drops + records))} of all)`;
  return drops ? h("strong", { class: "loud" }, `${number(drops)}${share}`) : number(0);
}

function percentOf(share) {
  return share < 0.001 ? "less than 0.1 %" : `${(100 * share).toFixed(share < 0.1 || share > 0.99 ? 1 : 0)} %`;
}

// A share of a processor, of which little is told more exactly.
export function percent(share) {
  return `${(100 * share).toFixed(share < 0.1 ? 2 : 0)} %`;
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

/* SPDX-License-Identifier: LGPL-2.1-or-later
 * The page: mouse, keys, search, and an address that holds what is shown (#t=FROM-TO&q=SEARCH&call=NUMBER&theme=dark). */
"use strict";

const KEYS = [
  ["w s, wheel", "zoom in and out"], ["a d, drag", "to the left and right"], ["↑ ↓, shift+wheel", "up and down"],
  ["shift+drag", "measure, and zoom to it"], ["click", "details of a call; on a thread's name: fold it"],
  ["double click, z", "zoom to the call"], ["/", "search: part of a name, or a /regular expression/"],
  ["n N", "next and previous call found"], ["p", "from a call to its caller"], ["f", "everything"], ["i", "the panel"],
  ["t", "dark or light"], ["Esc", "let go of what is chosen or searched for"],
];
const byId = (id) => document.getElementById(id);

class Page {
  constructor(trace) {
    this.trace = trace;
    this.view = new View(trace, byId("view"));
    this.dark = matchMedia("(prefers-color-scheme: dark)").matches;
    this.found = [];
    byId("title").textContent = trace.heading;
    document.title = trace.heading;
    byId("help").append(element("h3", "keys"), table(KEYS.map((row) => [row, null])), element("p", "Esc closes this."));
    this.fromAddress();
    this.listen();
    this.themed();
    if (this.view.chosen >= 0) this.choose(this.view.chosen, !location.hash.includes("t="));
    else showTrace(byId("panel"), trace, this);
    new ResizeObserver(() => this.later()).observe(byId("view"));
  }

  fromAddress() {
    const asked = new URLSearchParams(location.hash.slice(1)), times = (asked.get("t") ?? "").split("-").map(Number);
    if (asked.has("theme")) this.dark = asked.get("theme") === "dark";
    if (times.length === 2 && times[1] > times[0]) this.view.show(times[0], times[1]);
    else this.view.show(0, this.trace.span);
    const call = Number(asked.get("call") ?? -1);
    if (Number.isInteger(call) && call >= 0 && call < this.trace.count) this.view.chosen = call;
    if (asked.has("q")) this.search(asked.get("q"));
  }

  toAddress() {
    const { from, to, chosen } = this.view, asked = new URLSearchParams({ t: `${Math.round(from)}-${Math.round(to)}` });
    if (byId("search").value) asked.set("q", byId("search").value);
    if (chosen >= 0) asked.set("call", chosen);
    if (from >= 0) history.replaceState(null, "", `#${asked}`);
  }

  themed() {
    document.documentElement.classList.toggle("dark", this.dark);
    const style = getComputedStyle(document.documentElement);
    const names = ["back", "lane", "kernel", "ink", "dim", "line", "accent", "loss", "pick", "match"];
    this.ink = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    this.ink.label = this.dark ? "#f2f3f5" : "#15181c";
    this.colours = palette(this.trace, this.dark);
    this.legend();
    this.later();
  }

  legend() {
    const parts = this.trace.images.map((image) => {
      const mark = element("i"), part = element("span", "", mark, image.name || "?");
      mark.style.background = this.colours.image(image.name);
      part.title = image.lane ? "the kernel" : `find calls in ${image.name}`;
      part.addEventListener("click", () => this.search(`@${image.name}`));
      return part;
    });
    const plain = (text) => classed("plain", element("span", text));
    parts.push(plain("red right edge: open at the stop"), plain("corner: left"), plain("left edge: entered before"));
    if (this.trace.gaps.length) parts.push(plain("red dashes: records dropped"));
    if (this.trace.omitted.length) parts.push(plain("red flag: a function no longer followed"));
    byId("legend").replaceChildren(...parts);
  }

  later() {
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = undefined;
      this.view.resize();
      this.view.draw(this.colours, this.ink);
      this.overview();
      byId("span").textContent = duration(this.view.to - this.view.from);
    });
    clearTimeout(this.noting);
    this.noting = setTimeout(() => this.toAddress(), 400);
  }

  /** How deep the calls are over the whole trace, all threads on top of each other, and the part that is shown. */
  overview() {
    const canvas = byId("overview"), paint = canvas.getContext("2d"), scale = devicePixelRatio || 1;
    const width = canvas.clientWidth, height = 44, { trace, ink } = this;
    canvas.width = width * scale;
    canvas.height = height * scale;
    paint.setTransform(scale, 0, 0, scale, 0, 0);
    paint.fillStyle = ink.back;
    paint.fillRect(0, 0, width, height);
    this.heights ??= overviewHeights(trace, 1024);
    const highest = Math.max(1, ...this.heights[0].map((n, at) => n + this.heights[1][at]));
    for (let at = 0; at < 1024; at++) {
      const [user, kernel] = this.heights.map((each) => (each[at] / highest) * (height - 6));
      paint.fillStyle = ink.accent;
      paint.globalAlpha = 0.55;
      paint.fillRect((at * width) / 1024, height - user - kernel, width / 1024 + 0.5, user);
      paint.fillStyle = ink.loss;
      paint.fillRect((at * width) / 1024, height - kernel, width / 1024 + 0.5, kernel);
    }
    paint.globalAlpha = 1;
    const left = (this.view.from / trace.span) * width, right = (this.view.to / trace.span) * width;
    paint.fillStyle = ink.dim;
    paint.globalAlpha = 0.22;
    paint.fillRect(0, 0, left, height);
    paint.fillRect(right, 0, width - right, height);
    paint.globalAlpha = 1;
    paint.strokeStyle = ink.pick;
    paint.strokeRect(left + 0.5, 0.5, Math.max(right - left, 2) - 1, height - 1);
  }

  search(text) {
    byId("search").value = text;
    const { trace, view } = this, wanted = matcher(text);
    view.matching = null;
    this.found = [];
    if (wanted) {
      const hit = trace.symbols.map(wanted);
      view.matching = trace.tracks.map((track) => track.rows.map((lane) => lane.map((row) => row.filter((n) => hit[trace.symbol[n]]))));
      this.found = view.matching.flat(2).flatMap((row) => Array.from(row)).sort((a, b) => trace.start[a] - trace.start[b]);
    }
    byId("hits").textContent = wanted ? this.found.length.toLocaleString("en") : "";
    this.later();
  }

  /** To the next call found, or with -1 to the one before: of what is chosen, or of where one looks. */
  step(direction) {
    const { found, trace, view } = this;
    if (!found.length) return;
    const time = view.chosen >= 0 ? trace.start[view.chosen] : view.from;
    let at = found.indexOf(view.chosen);
    at = at >= 0 ? at + direction : found.findIndex((call) => trace.start[call] >= time);
    this.choose(found[(at + found.length) % found.length], true);
  }

  choose(call, bring) {
    const { view, trace } = this;
    view.chosen = call;
    if (call < 0) showTrace(byId("panel"), trace, this);
    else {
      showCall(byId("panel"), trace, call, this);
      if (bring) this.bring(call);
    }
    this.later();
  }

  bring(call) {
    const { view, trace } = this, track = trace.tracks.find((each) => call < each.last);
    track.open = true;
    const width = view.to - view.from, start = trace.start[call], took = trace.end[call] - start;
    if (took > width || took < width / 400) this.zoomTo(call, took > width ? 1.3 : 12);
    else if (start < view.from || trace.end[call] > view.to) view.show(start + took / 2 - width / 2, start + took / 2 + width / 2);
    const { y } = view.place(call);
    if (y < RULER + HEAD || y > view.height - 2 * ROW) view.top += y - view.height / 2;
  }

  zoomTo(call, factor = 1.3) {
    const { start, end } = this.trace, middle = (start[call] + end[call]) / 2, half = (factor * Math.max(end[call] - start[call], 20)) / 2;
    this.view.show(middle - half, middle + half);
    this.later();
  }

  zoom(factor, x) {
    const { view } = this, at = x === undefined ? (view.from + view.to) / 2 : view.time(x);
    view.show(at - (at - view.from) * factor, at + (view.to - at) * factor);
    this.later();
  }

  pan(part) {
    const { view } = this, by = part * (view.to - view.from);
    view.show(view.from + by, view.to + by);
    this.later();
  }

  scroll(by) {
    this.view.top += by;
    this.later();
  }

  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || byId("help").open) return; // Esc closes that by itself
    const act = {
      w: () => this.zoom(1 / 1.4), s: () => this.zoom(1.4), a: () => this.pan(-0.15), d: () => this.pan(0.15),
      ArrowLeft: () => this.pan(-0.15), ArrowRight: () => this.pan(0.15), ArrowUp: () => this.scroll(-60),
      ArrowDown: () => this.scroll(60), "/": () => byId("search").select(), n: () => this.step(1), N: () => this.step(-1),
      f: () => { this.view.show(0, this.trace.span); this.later(); },
      z: () => this.view.chosen >= 0 && this.zoomTo(this.view.chosen),
      p: () => this.trace.parent[this.view.chosen] >= 0 && this.choose(this.trace.parent[this.view.chosen], true),
      t: () => { this.dark = !this.dark; this.themed(); },
      i: () => byId("panel").classList.toggle("hidden"),
      "?": () => byId("help").showModal(),
      Escape: () => (this.view.chosen >= 0 ? this.choose(-1) : this.search("")),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  listen() {
    const canvas = byId("view"), field = byId("search");
    document.addEventListener("keydown", (event) => event.target !== field && this.key(event));
    field.addEventListener("input", () => this.search(field.value));
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.step(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") { this.search(""); canvas.focus(); }
    });
    byId("fit").addEventListener("click", () => this.key(new KeyboardEvent("keydown", { key: "f" })));
    byId("theme").addEventListener("click", () => this.key(new KeyboardEvent("keydown", { key: "t" })));
    byId("keys").addEventListener("click", () => byId("help").showModal());
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      if (event.shiftKey) this.scroll(event.deltaY || event.deltaX);
      else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan(event.deltaX / this.view.width);
      else this.zoom(Math.exp(event.deltaY * 0.0016), event.offsetX);
    }, { passive: false });
    canvas.addEventListener("dblclick", (event) => {
      const what = this.view.at(event.offsetX, event.offsetY);
      if (what?.call !== undefined) this.zoomTo(what.call);
    });
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => !event.buttons && this.hover(event));
    canvas.addEventListener("pointerleave", () => { byId("tip").hidden = true; });
    const jump = (event) => {
      const { view, trace } = this, at = (event.offsetX / byId("overview").clientWidth) * trace.span;
      view.show(at - (view.to - view.from) / 2, at + (view.to - view.from) / 2);
      this.later();
    };
    byId("overview").addEventListener("pointerdown", jump);
    byId("overview").addEventListener("pointermove", (event) => event.buttons && jump(event));
  }

  /** Dragging moves, with shift it marks; a click that moved nothing chooses. */
  press(event) {
    const canvas = byId("view"), { view } = this, { from, to, top } = view, began = view.time(event.offsetX);
    let moved = false;
    canvas.setPointerCapture(event.pointerId);
    byId("tip").hidden = true;
    const move = (now) => {
      const x = now.offsetX - event.offsetX, y = now.offsetY - event.offsetY;
      moved ||= Math.abs(x) + Math.abs(y) > 3;
      if (event.shiftKey) view.range = [began, view.time(now.offsetX)];
      else if (moved) {
        const by = (x / view.width) * (to - from);
        view.show(from - by, to - by);
        view.top = top - y;
      }
      this.later();
    };
    canvas.addEventListener("pointermove", move);
    canvas.addEventListener("pointerup", (now) => {
      canvas.removeEventListener("pointermove", move);
      if (view.range && moved) view.show(Math.min(...view.range), Math.max(...view.range));
      view.range = null;
      if (!moved) this.click(now);
      this.later();
    }, { once: true });
  }

  click(event) {
    const what = this.view.at(event.offsetX, event.offsetY);
    if (what && what.call === undefined) what.track.open = !what.track.open;
    else this.choose(what ? what.call : -1, false);
    byId("view").focus();
  }

  hover(event) {
    const tip = byId("tip"), what = this.view.at(event.offsetX, event.offsetY), { trace } = this;
    tip.hidden = what?.call === undefined;
    if (tip.hidden) return;
    const { call } = what, [name, image, lane] = trace.symbols[trace.symbol[call]];
    const took = duration(trace.end[call] - trace.start[call]), own = duration(trace.own[call]);
    tip.replaceChildren(element("b", name), element("div", `${lane ? "kernel" : image} · ${took}, in itself ${own}`));
    if (trace.state[call]) tip.append(element("div", STATES[trace.state[call]]));
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8)}px`;
  }
}

/** Whether a symbol is searched for; null for no search. `@image` finds an image's, /x/ is a regular expression. */
function matcher(text) {
  if (!text) return null;
  if (text.startsWith("@")) return ([, image]) => image === text.slice(1);
  const pattern = text.match(/^\/(.+?)\/?$/);
  try {
    const expression = pattern && new RegExp(pattern[1], "i");
    if (expression) return ([name]) => expression.test(name);
  } catch {
    // half a regular expression, while it is being typed: as text
  }
  const small = text.toLowerCase();
  return ([name]) => name.toLowerCase().includes(small);
}

/** Per bin of the whole trace the largest number of calls that lie in one another, of users and of the kernel. */
function overviewHeights(trace, bins) {
  const heights = [new Array(bins).fill(0), new Array(bins).fill(0)], scale = bins / trace.span;
  for (const track of trace.tracks) {
    track.rows.forEach((lane, which) => lane.forEach((row) => {
      const seen = new Uint8Array(bins);
      for (let n = 0; n < row.length;) {
        const first = Math.max(0, Math.floor(trace.start[row[n]] * scale));
        const last = Math.min(bins - 1, Math.floor(trace.end[row[n]] * scale));
        seen.fill(1, first, last + 1);
        n = Math.max(n + 1, firstEndingAfter(trace.end, row, (last + 1) / scale, n));
      }
      seen.forEach((one, bin) => { heights[which][bin] += one; });
    }));
  }
  return heights;
}

unpack(byId("data").textContent).then(decode).then((trace) => {
  window.timeline = new Page(trace);
  document.documentElement.dataset.ready = "yes";
}).catch((error) => {
  const text = `This trace cannot be drawn: ${error.message}. It takes a browser from 2023 or later.`;
  byId("panel").textContent = text;
  document.documentElement.dataset.ready = "no";
});

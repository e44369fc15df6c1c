// SPDX-License-Identifier: LGPL-2.1-or-later
// The time line of a trace: threads, and calls as nested rectangles whose width is time. The address keeps the view.

import { duration, h, later, moment, number, plural, show, table } from "./dom.js";
import { command, refused } from "./frame.js";
import { get } from "./talk.js";
import { views } from "./views.js";
import { aboutCall } from "./call.js";
import { HEAD, ROW, RULER, TimelineImage } from "./timeline_image.js";
import { palette, Tiles } from "./tiles.js";

const LEAST = 20; // ns that a view shows at least

export async function timeline(place, id) {
  const bar = h("progress", { "aria-label": "Read so far", max: 1 });
  const far = h("p", { id: "far", role: "status" }, "A large one takes a while when it is opened for the first time.");
  show(place, h("h1", null, "Reading the trace …"), h("p", null, bar), far, h("p", null, h("a", { href: "/traces" }, "Give it up")));
  const ending = new AbortController();
  addEventListener("gilk-leave", () => ending.abort(), { once: true });
  const reading = get(`/file/${id}/timeline.json`, ending.signal);
  const shown = progress(id, bar, far, reading);
  const found = await reading.finally(() => clearInterval(shown));
  const view = new TimelineView(place, id, found);
  return () => view.leave();
}

export function keysHint(more = "") {
  return h("p", { id: "line-keys", class: "hint" }, more, "Keys: ← → move, + − zoom, 0 shows all, Page Up and Page Down scroll. Space chooses the call in the ",
    "middle; then ← → are its neighbours, ↑ its caller, ↓ its longest call, Enter shows it whole, Esc lets it go. N: next that is found.");
}

// Show how far the server is while it prepares the trace. Returns the number of the timer.
function progress(id, bar, far, reading) {
  const asking = setInterval(async () => {
    const { done, of } = await get(`/file/${id}/timeline/progress.json`).catch(() => ({ done: 0, of: 0 }));
    if (!of) return;
    bar.max = of;
    bar.value = done;
    far.textContent = `${number(done)} of ${number(of)} records. It is done once; later it is there at once.`;
  }, 500);
  reading.catch(() => clearInterval(asking));
  return asking;
}

export class TimelineView {
  // `words` are those of an address: the view, the chosen call and what is looked for.
  constructor(place, id, found, words = new URLSearchParams(location.search)) {
    Object.assign(this, { id, found, words, top: 0, chosen: null, hold: null, drawn: 0, colours: new Map() });
    const [from, to] = (this.words.get("t") ?? "").split("-").map(Number);
    this.from = Number.isFinite(from) && to > from ? from : 0;
    this.to = Number.isFinite(from) && to > from ? to : found.span;
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.tiles = new Tiles(id, palette(found.symbols, this.dark.matches), () => this.soon());
    this.build(place);
    this.recoloured = () => { this.tiles.recolour(palette(this.found.symbols, this.dark.matches)); this.soon(); };
    this.dark.addEventListener("change", this.recoloured);
    this.sized = new ResizeObserver(() => this.soon());
    this.sized.observe(this.canvas);
    this.keep = later(() => this.remember(), 300);
    this.figures = later(() => this.told(), 300);
    this.soon();
    this.figures();
    const call = this.words.get("call");
    if (call !== null && /^\d+$/.test(call)) this.choose(Number(call), false);
  }

  leave() {
    this.gone = true;
    this.sized.disconnect();
    this.dark.removeEventListener("change", this.recoloured);
  }

  // The canvas, which heeds mouse and keys.
  line(id, label) {
    this.canvas = h("canvas", { id, class: "line", tabindex: 0, role: "application", "aria-label": label, "aria-describedby": "line-keys" });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.canvas.addEventListener("pointerdown", (event) => this.down(event));
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    this.canvas.addEventListener("pointerup", (event) => this.up(event));
    this.canvas.addEventListener("dblclick", () => this.toChosen());
    return this.canvas;
  }

  build(place) {
    const { found } = this;
    this.line("line", "Time line");
    this.query = h("input", { id: "find", type: "search", autocomplete: "off", spellcheck: "false", value: this.words.get("q") ?? "",
      oninput: later(() => { this.keep(); this.soon(); }, 150),
      onkeydown: (event) => { if (event.key === "Enter") this.find(event.shiftKey); } });
    this.depth = h("input", { id: "depth", type: "number", min: 0, value: this.words.get("depth") ?? "", placeholder: "all",
      onchange: () => this.changed() });
    this.thread = h("select", { id: "thread", onchange: () => this.changed() }, h("option", { value: "" }, "all"),
      found.tracks.map((each, index) => h("option", { value: String(index) }, each.name)));
    this.thread.value = this.words.get("thread") ?? "";
    this.where = h("p", { id: "where", role: "status" });
    this.details = h("section", { id: "call", "aria-label": "The call", "aria-live": "polite" }, this.noCall());
    this.statistics = h("section", { id: "figures", "aria-label": "In view" });
    const button = (name, act) => h("button", { onclick: act }, name);
    show(place,
      h("h1", null, found.name), views(this.id, "timeline"),
      h("p", null, found.heading, ": ", found.about.join("; ")),
      found.losses.length ? h("p", { class: "mark none" }, found.losses.join("; ")) : null,
      h("div", { class: "fields" },
        h("p", { class: "field wide" }, h("label", { for: "find" }, "Find a function"), this.query,
          button("Next", () => this.find(false))),
        h("p", { class: "field" }, h("label", { for: "depth" }, "Depth"), this.depth),
        h("p", { class: "field" }, h("label", { for: "thread" }, "Thread"), this.thread)),
      h("p", { class: "acts" }, button("Whole", () => this.look(0, found.span)), button("Closer", () => this.zoom(0.5)),
        button("Farther", () => this.zoom(2)), button("Earlier", () => this.pan(-0.5)), button("Later", () => this.pan(0.5))),
      this.where, this.canvas,
      keysHint(),
      h("div", { class: "two" }, this.details, this.statistics),
      h("p", null, h("a", { href: "/traces" }, "All files"), " ", command(found.command, found.python)));
  }

  changed() {
    this.top = 0;
    this.keep();
    this.soon();
  }

  remember() {
    if (this.gone) return;
    const words = new URLSearchParams();
    if (this.from > 0 || this.to < this.found.span) words.set("t", `${Math.round(this.from)}-${Math.round(this.to)}`);
    for (const [name, field] of [["q", this.query], ["depth", this.depth], ["thread", this.thread]]) if (field.value) words.set(name, field.value);
    if (this.chosen) words.set("call", this.chosen.call);
    history.replaceState(null, "", `${location.pathname}${words.size ? `?${words}` : ""}`);
  }

  // The part of the trace that is in view.

  look(from, to) {
    const { span } = this.found;
    const wide = Math.min(span, Math.max(LEAST, to - from));
    this.from = Math.max(0, Math.min(span - wide, (from + to - wide) / 2));
    this.to = this.from + wide;
    this.keep();
    this.figures();
    this.soon();
  }

  zoom(factor, at = 0.5) {
    const middle = this.from + at * (this.to - this.from);
    const wide = Math.min(this.found.span, Math.max(LEAST, (this.to - this.from) * factor));
    this.look(middle - at * wide, middle + (1 - at) * wide);
  }

  pan(part) {
    const by = part * (this.to - this.from);
    this.look(this.from + by, this.to + by);
  }

  scroll(by) {
    this.top = Math.max(0, Math.min(this.high - this.canvas.clientHeight + RULER, this.top + by));
    this.soon();
  }

  // The rows that are shown, each the {head} of a thread or a {row} of the trace, with its height y.
  rows() {
    const deep = Number(this.depth.value) || Infinity;
    const only = this.thread.value;
    const made = [];
    let y = 0;
    this.found.tracks.forEach((track, index) => {
      if (only !== "" && Number(only) !== index) return;
      made.push({ y, head: track });
      y += HEAD;
      for (let depth = 0; depth < Math.min(deep, track.rows); depth++, y += ROW) made.push({ y, row: track.first + depth });
    });
    this.high = y;
    return made;
  }

  // Drawing.

  soon() {
    if (this.waits || this.gone) return;
    this.waits = true;
    requestAnimationFrame(() => { this.waits = false; if (!this.gone) this.draw(); });
  }

  draw() {
    const began = performance.now();
    const { canvas, from, to, top, chosen } = this;
    this.width = canvas.clientWidth;
    this.image = new TimelineImage(canvas, this.tiles, this.found, { from, to, top, rows: this.rows(), chosen });
    this.image.draw(this.query.value.trim());
    this.where.textContent = `${duration(Math.round(to - from))} of ${duration(this.found.span)}, from ${moment(from, (to - from) / 10)}`;
    this.drawn += 1;
    canvas.dataset.drawn = this.drawn;
    canvas.dataset.settled = this.tiles.busy ? "no" : "yes";
    canvas.dataset.took = (performance.now() - began).toFixed(2);
    if (this.tiles.trouble) {
      show(this.details, refused(this.tiles.trouble));
      this.tiles.trouble = null;
    }
  }

  // Mouse.

  wheel(event) {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan((event.deltaX || event.deltaY) / this.width);
    else this.zoom(2 ** (event.deltaY / 300), event.offsetX / this.width);
  }

  down(event) {
    if (event.offsetY < 8) {
      const middle = (event.offsetX / this.width) * this.found.span, half = (this.to - this.from) / 2;
      this.look(middle - half, middle + half);
      return;
    }
    this.hold = { x: event.offsetX, y: event.offsetY, from: this.from, to: this.to, top: this.top, moved: false };
    this.canvas.setPointerCapture(event.pointerId);
  }

  move(event) {
    if (!this.hold) return;
    const dx = event.offsetX - this.hold.x, dy = event.offsetY - this.hold.y;
    if (Math.abs(dx) + Math.abs(dy) < 4 && !this.hold.moved) return;
    this.hold.moved = true;
    const by = (-dx / this.width) * (this.hold.to - this.hold.from);
    this.look(this.hold.from + by, this.hold.to + by);
    this.top = this.hold.top;
    this.scroll(-dy);
  }

  up(event) {
    const { hold } = this;
    this.hold = null;
    if (!hold || hold.moved) return;
    const call = this.image.callAt(event.offsetX, event.offsetY);
    if (call !== null) this.choose(call, false);
  }

  // Keys.

  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const to = (call) => () => { if (call !== undefined && call >= 0) this.choose(call, true); };
    const { chosen } = this;
    const acts = {
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), 0: () => this.look(0, this.found.span),
      Home: () => this.look(0, this.to - this.from), End: () => this.look(this.found.span - this.to + this.from, this.found.span),
      PageUp: () => this.scroll(-200), PageDown: () => this.scroll(200), n: () => this.find(false), N: () => this.find(true),
      " ": () => this.chooseMiddle(), Enter: () => this.toChosen(), Escape: () => this.letGo(),
      ArrowLeft: chosen && !event.shiftKey ? to(chosen.before) : () => this.pan(-0.1),
      ArrowRight: chosen && !event.shiftKey ? to(chosen.after) : () => this.pan(0.1),
      ArrowUp: chosen ? to(chosen.callers[0]?.call) : () => this.scroll(-ROW),
      ArrowDown: chosen ? to(chosen.children[0]?.call) : () => this.scroll(ROW),
    };
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  chooseMiddle() {
    for (const each of this.image.shown) {
      if (each.head) continue;
      const call = this.image.callAt(this.width / 2, this.image.y(each) + 2);
      if (call !== null) return this.choose(call, false);
    }
    return undefined;
  }

  toChosen() {
    if (!this.chosen) return;
    const { start, duration: long } = this.chosen;
    this.look(start - 0.1 * long, start + 1.1 * long);
  }

  letGo() {
    this.chosen = null;
    show(this.details, this.noCall());
    this.keep();
    this.soon();
  }

  // The words in place of a call, while none is chosen.
  noCall() {
    return h("p", { class: "hint" }, "A click on a call chooses it: its times, its callers and its longest calls are shown here.");
  }

  // The chosen call.

  async choose(call, follow) {
    let found;
    try {
      found = await get(`/file/${this.id}/timeline/call.json?call=${call}`);
    } catch (error) {
      show(this.details, refused(error));
      return;
    }
    this.chosen = found;
    if (follow) this.bring(found);
    show(this.details, aboutCall(found, (call) => { this.choose(call, true); this.canvas.focus(); }));
    this.keep();
    this.soon();
  }

  // Move the view until the call is in it, and zoom in if the call would be less than two pixels wide.
  bring(found) {
    const wide = this.to - this.from;
    const [start, end] = [found.start, found.start + found.duration];
    if (found.duration > 0 && (found.duration / wide) * this.width < 2) this.look(start - 20 * found.duration, end + 20 * found.duration);
    else if (end < this.from || start > this.to || (start < this.from && end <= this.to) || (end > this.to && start >= this.from)) {
      this.look((start + end - wide) / 2, (start + end + wide) / 2);
    }
    const row = this.rows().find((each) => each.row === found.row);
    const height = this.canvas.clientHeight - RULER;
    if (row && (row.y < this.top || row.y + ROW > this.top + height)) this.top = Math.max(0, row.y - height / 2);
  }

  async told() {
    const words = new URLSearchParams({ from: Math.floor(this.from), to: Math.ceil(this.to) });
    const found = await get(`/file/${this.id}/timeline/view.json?${words}`).catch(() => null);
    if (!found || this.gone) return;
    show(this.statistics, h("h2", null, `In view: ${plural(found.calls, "call")} that begin`),
      table("Functions in view", [
        ["Function", "name", (one) => one.function], ["Calls", "number", (one) => number(one.calls)], ["In itself", "number", (one) => duration(one.self)],
      ], found.functions), found.left_out ? h("p", null, `and ${plural(found.left_out, "function")} with less`) : null);
  }

  async find(back) {
    const query = this.query.value.trim();
    if (!query) return this.query.focus();
    const words = new URLSearchParams({ q: query, after: this.chosen?.call ?? -1, back: back ? 1 : 0 });
    try {
      const found = await get(`/file/${this.id}/timeline/find.json?${words}`);
      if (found.call < 0) show(this.details, h("p", { role: "status" }, `No function of the trace has “${query}” in its name.`));
      else await this.choose(found.call, true);
    } catch (error) {
      show(this.details, refused(error));
    }
    return undefined;
  }
}

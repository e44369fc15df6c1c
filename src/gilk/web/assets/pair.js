// SPDX-License-Identifier: LGPL-2.1-or-later
// The time lines of two traces, locked: both always show the same time since their beginnings. The address keeps it.

import { h, later, show, trouble } from "./dom.js";
import { refused } from "./frame.js";
import { get } from "./talk.js";
import { keysHint, TimelineView } from "./timeline.js";

const MARGIN = 0.1; // the part of the width beside what is brought into view

class LockedView extends TimelineView {
  constructor(place, pair, side, id, found, words) {
    super(Object.assign(place, { pair, side }), id, found, words); // it calls build(), which needs both
  }

  build(place) {
    const { pair, side } = place;
    Object.assign(this, { pair, query: pair.query, depth: h("input", { value: "" }), thread: h("input", { value: "" }),
      where: h("p", { role: "status" }), details: h("section", { "aria-label": `The call in ${side}`, "aria-live": "polite" }) });
    show(place, h("h3", null, `${side}: ${this.found.name}`), this.where, this.line(`line-${side}`, `Time line of ${side}`));
  }

  look(from, to) {
    super.look(from, to);
    this.pair?.moved(this);
  }

  // Show what another view shows.
  follow(from, to) {
    super.look(from, to);
  }

  remember() {
    if (!this.gone) this.pair.keep();
  }

  async told() {}

  // The next call that is looked for, which is chosen; null if there is none.
  async first(name) {
    const words = new URLSearchParams({ q: name, after: -1, back: 0 });
    const { call } = await get(`/file/${this.id}/timeline/find.json?${words}`);
    if (call < 0) {
      this.letGo();
      show(this.details, h("p", { role: "status" }, `No function of ${this.found.name} has “${name}” in its name.`));
      return null;
    }
    await this.choose(call, false);
    return this.chosen;
  }
}

export class Pair {
  constructor(place, words) {
    this.place = place;
    this.words = words;
    this.views = [];
    this.keep = later(() => this.remember(), 300);
    this.query = h("input", { id: "find", type: "search", autocomplete: "off", spellcheck: "false", value: words.get("q") ?? "",
      oninput: later(() => { this.keep(); for (const view of this.views) view.soon(); }, 150),
      onkeydown: (event) => { if (event.key === "Enter") this.show(this.query.value.trim()); } });
    show(place, h("h2", null, "Both time lines"), h("p", { role: "status" }, "Reading both traces …"));
  }

  // Read both traces, and show them. `files` are {id, name}.
  async open(files) {
    try {
      const found = await Promise.all(files.map((one) => get(`/file/${one.id}/timeline.json`)));
      if (!this.gone) this.build(files, found);
    } catch (error) {
      if (error.name !== "AbortError") show(this.place, h("h2", null, "Both time lines"), h("p", null, trouble(error)));
    }
  }

  build(files, found) {
    const span = Math.max(...found.map((one) => one.span));
    const parts = files.map(() => h("div", { class: "pair" }));
    const words = new URLSearchParams([...this.words].filter(([name]) => name === "t"));
    this.views = parts.map((part, at) => new LockedView(part, this, "AB"[at], files[at].id, { ...found[at], span }, words));
    const [a] = this.views;
    const button = (name, act) => h("button", { onclick: act }, name);
    show(this.place, h("h2", null, "Both time lines"),
      h("p", { class: "field wide" }, h("label", { for: "find" }, "Find a function"), this.query,
        button("Show in both", () => this.show(this.query.value.trim()))),
      h("p", { class: "acts" }, button("Whole", () => a.look(0, span)), button("Closer", () => a.zoom(0.5)),
        button("Farther", () => a.zoom(2)), button("Earlier", () => a.pan(-0.5)), button("Later", () => a.pan(0.5))),
      parts, keysHint("Moving one moves the other: both show the same time since their beginnings. "),
      h("div", { class: "two" }, this.views.map((view) => view.details)));
    for (const view of this.views) view.soon();
  }

  moved(view) {
    for (const other of this.views) if (other !== view) other.follow(view.from, view.to);
  }

  // Choose the first call of a function in each trace, and bring both calls into view.
  async show(name) {
    if (!name || !this.views.length) return this.query.focus();
    this.query.value = name;
    const calls = (await Promise.all(this.views.map((view) => view.first(name).catch((error) => {
      show(view.details, refused(error));
      return null;
    })))).filter(Boolean);
    if (calls.length) {
      const from = Math.min(...calls.map((one) => one.start));
      const to = Math.max(...calls.map((one) => one.start + one.duration));
      this.views[0].look(from - MARGIN * (to - from), to + MARGIN * (to - from));
    }
    this.views[0]?.canvas.scrollIntoView({ block: "nearest" });
    return undefined;
  }

  remember() {
    const [a] = this.views;
    if (!a || this.gone) return;
    this.words.delete("t");
    this.words.delete("q");
    if (a.from > 0 || a.to < a.found.span) this.words.set("t", `${Math.round(a.from)}-${Math.round(a.to)}`);
    if (this.query.value) this.words.set("q", this.query.value);
    history.replaceState(null, "", `${location.pathname}?${this.words}`);
  }

  leave() {
    this.gone = true;
    for (const view of this.views) view.leave();
  }
}

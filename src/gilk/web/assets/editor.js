// SPDX-License-Identifier: LGPL-2.1-or-later
// A field in which programs are written, with marks under words, counts after lines, and a list of words for completion.
//
// A textarea shows the letters. Behind it lies an element with the same text, invisible, which carries the marks: so both
// wrap and scroll alike, and the place of the cursor can be measured.

import { h, plain, plural, show } from "./dom.js";

const OPENING = /[\w:$@.`]$|->$/;
const EAGER = new Set(["probe", "member", "scoped", "aggregation", "symbol", "macro", "option", "tag"]);
const PAGE = 8; // words that PageDown moves by

// The server counts code points, and JavaScript UTF-16 units: a letter outside the basic plane is one there, and two here.
export function counted(text, at) {
  return /[\ud800-\udfff]/.test(text) ? [...text.slice(0, at)].length : at;
}

export function placed(text, count) {
  return /[\ud800-\udfff]/.test(text) ? [...text].slice(0, count).join("").length : count;
}

export class Editor {
  // `ask` returns a promise of the words for a text and a place in it; `changed` is called when the text has changed.
  constructor(text, ask, changed) {
    this.ask = ask;
    this.changed = changed;
    this.marks = [];
    this.counts = [];
    this.words = null;
    this.active = 0;
    this.asked = 0;
    this.field = h("textarea", { id: "program", rows: 12, spellcheck: "false", autocomplete: "off", autocapitalize: "off",
      wrap: "soft", "aria-autocomplete": "list", "aria-haspopup": "listbox", "aria-controls": "words",
      "aria-describedby": "keys" });
    this.field.value = text;
    this.behind = h("div", { class: "behind", "aria-hidden": "true" });
    this.list = h("ul", { id: "words", role: "listbox", "aria-label": "Words that may stand here", hidden: true });
    this.said = h("p", { class: "unseen", role: "status" });
    this.place = h("div", { class: "editor" }, this.behind, this.field, this.list, this.said);
    this.field.addEventListener("input", (event) => this.typed(event));
    this.field.addEventListener("keydown", (event) => this.pressed(event));
    this.field.addEventListener("scroll", () => this.follow());
    this.field.addEventListener("blur", () => this.close());
    this.field.addEventListener("click", () => this.close());
    this.draw();
  }

  get text() {
    return this.field.value;
  }

  // Take the server's findings: marks are [from, to, words], counts [from, words], with places as the server counts them.
  told(marks, counts) {
    const at = (place) => placed(this.text, place);
    this.marks = marks.map(([from, to, words]) => [at(from), at(to), words]);
    this.counts = counts.map(([from, words]) => [at(from), words]);
    this.draw();
  }

  goTo(from, to) {
    this.field.focus();
    this.field.setSelectionRange(placed(this.text, from), placed(this.text, to));
  }

  typed(event) {
    this.marks = [];
    this.counts = [];
    this.draw();
    this.changed();
    const before = this.text.slice(0, this.field.selectionStart);
    if (event.inputType?.startsWith("delete") ? this.words : OPENING.test(before)) this.open(false);
    else this.close();
  }

  pressed(event) {
    if (event.ctrlKey && (event.key === " " || event.code === "Space")) {
      event.preventDefault();
      this.open(true);
      return;
    }
    if (!this.words || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const last = this.words.length - 1;
    const to = { ArrowDown: this.active === last ? 0 : this.active + 1, ArrowUp: this.active ? this.active - 1 : last,
      PageDown: Math.min(last, this.active + PAGE), PageUp: Math.max(0, this.active - PAGE) }[event.key];
    if (to !== undefined) this.choose(to);
    else if (event.key === "Escape") this.close();
    else if (event.key === "Enter" && this.text.slice(...this.span) === this.words[this.active].text) {
      this.close(); // the word is complete: Enter means a new line
      return;
    } else if ((event.key === "Enter" || event.key === "Tab") && !event.shiftKey) this.accept(this.active);
    else {
      if (event.key.startsWith("Arrow") || event.key === "Home" || event.key === "End") this.close();
      return;
    }
    event.preventDefault();
  }

  // Open the list of words. If the user has asked for it (`wanted`), it opens even before a letter has been typed.
  async open(wanted) {
    const [text, at, number] = [this.text, this.field.selectionStart, ++this.asked];
    let found;
    try {
      found = await this.ask(text, counted(text, at));
    } catch (error) {
      if (wanted && number === this.asked) this.said.textContent = plain(`${error.message} (${error.slug})`);
      return;
    }
    if (number !== this.asked || text !== this.text || at !== this.field.selectionStart) return;
    this.span = [placed(text, found.start), placed(text, found.end)];
    const bare = this.span[0] === at && !EAGER.has(found.kind);
    if (!found.words.length || (bare && !wanted)) {
      this.close();
      if (wanted) this.said.textContent = "No words are known for this place.";
      return;
    }
    this.words = found.words;
    this.shown(found.left_out);
  }

  shown(left) {
    show(this.list, this.words.map((word, number) =>
      h("li", { id: `word-${number}`, role: "option", "aria-selected": "false",
        onmousedown: (event) => event.preventDefault(), onclick: () => this.accept(number) },
      h("span", { class: "word" }, word.text), h("span", { class: "detail" }, word.detail || word.kind))));
    this.list.hidden = false;
    this.follow();
    this.said.textContent = left ? `${plural(this.words.length, "word")}, and more` : plural(this.words.length, "word");
    this.choose(0);
  }

  choose(number) {
    this.list.children[this.active]?.setAttribute("aria-selected", "false");
    this.active = number;
    const chosen = this.list.children[number];
    chosen.setAttribute("aria-selected", "true");
    chosen.scrollIntoView({ block: "nearest" });
    this.field.setAttribute("aria-activedescendant", chosen.id);
  }

  accept(number) {
    const word = this.words[number];
    this.close();
    this.field.focus();
    this.field.setSelectionRange(...this.span);
    if (!document.execCommand("insertText", false, word.text)) { // this command can be undone
      this.field.setRangeText(word.text, ...this.span, "end");
      this.field.dispatchEvent(new Event("input"));
    }
    this.close();
  }

  close() {
    this.asked += 1;
    this.words = null;
    this.active = 0;
    this.list.hidden = true;
    this.field.removeAttribute("aria-activedescendant");
    show(this.list);
    this.said.textContent = "";
  }

  // Fill the element behind with the text, cut where a mark begins or ends and where a count stands.
  draw() {
    const { text } = this;
    const ends = this.counts.map(([from, words]) => [lineEnd(text, from), words]);
    const cuts = [...new Set([0, text.length, ...this.marks.flatMap(([from, to]) => [from, Math.max(to, from + 1)]),
      ...ends.map(([end]) => end)])].filter((cut) => cut <= text.length).sort((one, other) => one - other);
    const parts = [];
    for (const [number, cut] of cuts.entries()) {
      const counts = ends.filter(([end]) => end === cut);
      if (counts.length) parts.push(h("span", { class: "count" }, counts.map(([, words]) => words).join(", ")));
      const next = cuts[number + 1];
      if (next === undefined) continue;
      const letters = document.createTextNode(text.slice(cut, next));
      const marked = this.marks.some(([from, to]) => from <= cut && next <= Math.max(to, from + 1));
      if (!marked) parts.push(letters);
      else {
        const mark = h("span", { class: "mark-wrong" });
        mark.append(letters);
        parts.push(mark);
      }
    }
    if (this.marks.some(([from]) => from >= text.length)) parts.push(h("span", { class: "mark-wrong end" }, " "));
    show(this.behind, ...parts, document.createTextNode("\n"));
    this.field.style.height = "auto";
    this.field.style.height = `${this.field.scrollHeight + 2}px`;
    this.follow();
  }

  // Scroll the element behind with the field, and put the list below its word.
  follow() {
    this.behind.scrollTop = this.field.scrollTop;
    this.behind.scrollLeft = this.field.scrollLeft;
    if (!this.words) return;
    const range = document.createRange();
    const [node, at] = nodeAt(this.behind, this.span[0]);
    range.setStart(node, at);
    range.setEnd(node, at);
    const [letter, whole] = [range.getBoundingClientRect(), this.place.getBoundingClientRect()];
    const room = Math.max(0, whole.width - this.list.offsetWidth - 2);
    this.list.style.left = `${Math.min(room, Math.max(0, letter.left - whole.left))}px`;
    this.list.style.top = `${letter.bottom - whole.top + 2}px`;
  }
}

function lineEnd(text, from) {
  const end = text.indexOf("\n", from);
  return end < 0 ? text.length : end;
}

// The text node of the element behind that has letter `at`, and the place in it. The texts of counts are skipped.
function nodeAt(place, at) {
  let left = at;
  let last = null;
  for (const child of place.childNodes) {
    if (child.nodeType === Node.ELEMENT_NODE && child.classList.contains("count")) continue;
    last = child.nodeType === Node.TEXT_NODE ? child : child.firstChild;
    if (left <= last.length) return [last, left];
    left -= last.length;
  }
  return [last, last.length];
}
